/* Rendering of records. Writes to a FILE and decides nothing. */
#include "format.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

static void put_bytes(FILE *to, struct pgcursus_bytes bytes) {
  if (bytes.length) fwrite(bytes.data, 1, bytes.length, to);
}

/* ---- format strings -------------------------------------------------------------------------- */

static int hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  digit = (char)tolower((unsigned char)digit);
  return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

const char *format_check(const char *format) {
  for (const char *at = format; *at; at++) {
    if (*at == '%') {
      at++;
      if (*at == '\0' || !strchr("topksTSK%", *at)) {
        return "after % comes one of t p o k s T S K %";
      }
    } else if (*at == '\\') {
      at++;
      if (*at == 'x') {
        if (hex_digit(at[1]) < 0 || hex_digit(at[2]) < 0) return "\\x needs two hex digits";
        at += 2;
      } else if (*at == '\0' || !strchr("ntr0\\", *at)) {
        return "after \\ comes one of n t r 0 x \\";
      }
    }
  }
  return NULL;
}

static void put_directive(FILE *to, char directive, struct pgcursus_bytes topic, int32_t partition,
                          const struct pgcursus_record *record) {
  switch (directive) {
    case 't':
      put_bytes(to, topic);
      break;
    case 'p':
      fprintf(to, "%" PRId32, partition);
      break;
    case 'o':
      fprintf(to, "%" PRIu64, record->offset);
      break;
    case 'k':
      put_bytes(to, record->key);
      break;
    case 's':
      put_bytes(to, record->payload);
      break;
    case 'T':
      fprintf(to, "%" PRId64, record->timestamp_ms);
      break;
    case 'S':
      fprintf(to, "%zu", record->payload.length);
      break;
    case 'K':
      fprintf(to, "%zu", record->key.length);
      break;
    default:
      fputc(directive, to);
      break;
  }
}

/* Writes the escape behind the backslash and returns its last character. */
static const char *put_escape(FILE *to, const char *at) {
  switch (*at) {
    case 'n':
      fputc('\n', to);
      return at;
    case 't':
      fputc('\t', to);
      return at;
    case 'r':
      fputc('\r', to);
      return at;
    case '0':
      fputc('\0', to);
      return at;
    case 'x':
      fputc(hex_digit(at[1]) * 16 + hex_digit(at[2]), to);
      return at + 2;
    default:
      fputc(*at, to);
      return at;
  }
}

void format_record(FILE *to, const char *format, struct pgcursus_bytes topic, int32_t partition,
                   const struct pgcursus_record *record) {
  for (const char *at = format; *at; at++) {
    if (*at == '%') {
      put_directive(to, *++at, topic, partition, record);
    } else if (*at == '\\') {
      at = put_escape(to, at + 1);
    } else {
      fputc(*at, to);
    }
  }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Length of the well-formed UTF-8 sequence at `at`, or 0 (RFC 3629: no overlong forms, no
 * surrogates). */
static size_t utf8_length(const uint8_t *at, size_t left) {
  if (at[0] < 0x80) return 1;
  size_t length = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
  if (at[0] < 0xc2 || at[0] > 0xf4 || length > left) return 0;
  for (size_t i = 1; i < length; i++) {
    if ((at[i] & 0xc0) != 0x80) return 0;
  }
  if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f)) return 0;
  if ((at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f)) return 0;
  return length;
}

static bool is_utf8(struct pgcursus_bytes bytes) {
  const uint8_t *at = bytes.data;
  size_t length;
  for (size_t i = 0; i < bytes.length; i += length) {
    length = utf8_length(at + i, bytes.length - i);
    if (length == 0) return false;
  }
  return true;
}

/* A JSON string; bytes outside UTF-8 text are shown as U+00xx, which is only for people to read. */
static void put_json_string(FILE *to, struct pgcursus_bytes bytes) {
  bool as_it_is = is_utf8(bytes);
  const uint8_t *at = bytes.data;
  fputc('"', to);
  for (size_t i = 0; i < bytes.length; i++) {
    if (at[i] == '"' || at[i] == '\\') {
      fprintf(to, "\\%c", at[i]);
    } else if (at[i] == '\n') {
      fputs("\\n", to);
    } else if (at[i] < 0x20 || at[i] == 0x7f || (at[i] >= 0x80 && !as_it_is)) {
      fprintf(to, "\\u%04x", at[i]);
    } else {
      fputc(at[i], to);
    }
  }
  fputc('"', to);
}

static void put_base64(FILE *to, struct pgcursus_bytes bytes) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const uint8_t *at = bytes.data;
  for (size_t i = 0; i < bytes.length; i += 3) {
    size_t left = bytes.length - i;
    uint32_t group = (uint32_t)at[i] << 16;
    if (left > 1) group |= (uint32_t)at[i + 1] << 8;
    if (left > 2) group |= at[i + 2];
    fputc(digits[group >> 18], to);
    fputc(digits[(group >> 12) & 63], to);
    fputc(left > 1 ? digits[(group >> 6) & 63] : '=', to);
    fputc(left > 2 ? digits[group & 63] : '=', to);
  }
}

static void put_member(FILE *to, const char *name, struct pgcursus_bytes value) {
  if (is_utf8(value)) {
    fprintf(to, ",\"%s\":", name);
    put_json_string(to, value);
    return;
  }
  fprintf(to, ",\"%s_base64\":\"", name);
  put_base64(to, value);
  fputc('"', to);
}

static void put_member_if_any(FILE *to, const char *name, struct pgcursus_bytes value) {
  if (value.length) put_member(to, name, value);
}

void format_record_json(FILE *to, struct pgcursus_bytes topic, int32_t partition,
                        const struct pgcursus_record *record) {
  fputs("{\"topic\":", to);
  put_json_string(to, topic);
  fprintf(to, ",\"partition\":%" PRId32 ",\"offset\":%" PRIu64, partition, record->offset);
  if (record->timestamp_ms) fprintf(to, ",\"timestamp\":%" PRId64, record->timestamp_ms);
  put_member_if_any(to, "key", record->key);
  put_member(to, "payload", record->payload);
  put_member_if_any(to, "producer_id", record->producer_id);
  if (record->sequence) fprintf(to, ",\"sequence\":%" PRIu64, record->sequence);
  if (record->epoch) fprintf(to, ",\"epoch\":%" PRId64, record->epoch);
  put_member_if_any(to, "event_type", record->event_type);
  if (record->schema_version) fprintf(to, ",\"schema_version\":%" PRIu32, record->schema_version);
  if (record->aggregate_version) {
    fprintf(to, ",\"aggregate_version\":%" PRIu64, record->aggregate_version);
  }
  put_member_if_any(to, "metadata", record->metadata);
  put_member_if_any(to, "transactional_id", record->transactional_id);
  put_member_if_any(to, "transaction_state", record->transaction_state);
  put_member_if_any(to, "transaction_marker", record->transaction_marker);
  put_member_if_any(to, "event_id", record->event_id);
  put_member_if_any(to, "payload_digest", record->payload_digest);
  fputs("}\n", to);
}

/* ---- listing --------------------------------------------------------------------------------- */

static void put_pair(FILE *to, const char *name, struct pgcursus_bytes value) {
  if (value.length == 0) return;
  fprintf(to, " %s=", name);
  put_json_string(to, value);
}

static void put_number(FILE *to, const char *name, uint64_t value) {
  if (value) fprintf(to, " %s=%" PRIu64, name, value);
}

static void list_record(FILE *to, const struct pgcursus_record *record) {
  fprintf(to, "  offset=%" PRIu64, record->offset);
  if (record->timestamp_ms) fprintf(to, " timestamp=%" PRId64, record->timestamp_ms);
  put_pair(to, "producerId", record->producer_id);
  put_number(to, "seqNum", record->sequence);
  if (record->epoch) fprintf(to, " epoch=%" PRId64, record->epoch);
  put_pair(to, "key", record->key);
  put_pair(to, "event_type", record->event_type);
  put_number(to, "schema_version", record->schema_version);
  put_number(to, "aggregate_version", record->aggregate_version);
  put_pair(to, "metadata", record->metadata);
  put_pair(to, "transactional_id", record->transactional_id);
  put_pair(to, "transaction_state", record->transaction_state);
  put_pair(to, "transaction_marker", record->transaction_marker);
  put_pair(to, "event_id", record->event_id);
  put_pair(to, "payload_digest", record->payload_digest);
  fputs(" payload=", to);
  put_json_string(to, record->payload);
  fputc('\n', to);
}

void format_batch_listing(FILE *to, const struct pgcursus_batch *batch) {
  fputs("BATCH topic=", to);
  put_bytes(to, batch->topic);
  fprintf(to, " partition=%" PRId32 " records=%zu\n", batch->partition, batch->record_count);
  for (size_t i = 0; i < batch->record_count; i++) list_record(to, &batch->records[i]);
}
