/* UTF-8 and JSON strings, for the log and for readable answers. Pure functions. */
#include "base/text.h"

/* The length of a sequence by its first byte, or 0; the smallest and largest valid second byte rule
 * out overlong forms, surrogates and values above U+10FFFF (Unicode standard, table 3-7). */
static size_t utf8_lead(uint8_t lead, uint8_t *smallest, uint8_t *largest) {
  *smallest = 0x80;
  *largest = 0xBF;
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (lead == 0xE0) *smallest = 0xA0;
    if (lead == 0xED) *largest = 0x9F;
    return 3;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (lead == 0xF0) *smallest = 0x90;
    if (lead == 0xF4) *largest = 0x8F;
    return 4;
  }
  return 0;
}

size_t text_utf8_length(struct slice bytes) {
  if (bytes.length == 0) return 0;
  uint8_t smallest, largest;
  size_t length = utf8_lead(bytes.data[0], &smallest, &largest);
  if (length > bytes.length) return 0;
  if (length > 1 && (bytes.data[1] < smallest || bytes.data[1] > largest)) return 0;
  for (size_t i = 2; i < length; i++)
    if ((bytes.data[i] & 0xC0) != 0x80) return 0;
  return length;
}

bool text_is_utf8(struct slice bytes) {
  while (bytes.length) {
    size_t length = text_utf8_length(bytes);
    if (length == 0) return false;
    bytes.data += length;
    bytes.length -= length;
  }
  return true;
}

bool text_is_space(uint8_t byte) {
  return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

struct slice text_trim(struct slice bytes) {
  while (bytes.length && text_is_space(bytes.data[0])) {
    bytes.data++;
    bytes.length--;
  }
  while (bytes.length && text_is_space(bytes.data[bytes.length - 1])) bytes.length--;
  return bytes;
}

static void append_json_ascii(struct buffer *out, uint8_t byte) {
  static const char short_forms[] = "\bb\tt\nn\ff\rr\"\"\\\\";
  for (const char *form = short_forms; *form; form += 2) {
    if ((uint8_t)*form != byte) continue;
    buffer_append_u8(out, '\\');
    buffer_append_u8(out, (uint8_t)form[1]);
    return;
  }
  if (byte < 0x20 || byte == 0x7F)
    buffer_append_format(out, "\\u%04x", byte);
  else
    buffer_append_u8(out, byte);
}

void text_append_json_string(struct buffer *out, struct slice bytes) {
  buffer_reserve(out, bytes.length + 2);
  buffer_append_u8(out, '"');
  while (bytes.length) {
    size_t length = text_utf8_length(bytes);
    if (length == 0) {
      buffer_append_text(out, "\\ufffd");
      length = 1;
    } else if (length == 1) {
      append_json_ascii(out, bytes.data[0]);
    } else {
      buffer_append(out, bytes.data, length);
    }
    bytes.data += length;
    bytes.length -= length;
  }
  buffer_append_u8(out, '"');
}
