/* Making publish requests. Pure work on bytes: nothing is sent from here. */
#include "load.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/hash.h"
#include "base/memory.h"
#include "crs2/wire/batch.h"
#include "crs2/wire/command_id.h"
#include "crs2/wire/frame.h"
#include "crs2/wire/request.h"

#define KEY_LENGTH 9u
#define PRODUCER_LENGTH 18u /* bench-RRRRRRRR-NNN, with the run in hex and the connection */
#define SEQUENCE_DIGITS 20u
#define PAYLOAD_MAGIC 0x50474256u

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void put_u32(uint8_t *place, uint32_t value) {
  uint32_t big_endian = htobe32(value);
  memcpy(place, &big_endian, sizeof big_endian);
}

static void put_u64(uint8_t *place, uint64_t value) {
  uint64_t big_endian = htobe64(value);
  memcpy(place, &big_endian, sizeof big_endian);
}

static uint32_t get_u32(const uint8_t *place) {
  uint32_t value;
  memcpy(&value, place, sizeof value);
  return be32toh(value);
}

/* ---- payloads: magic, producer, sequence or stamp, filler, checksum of all before --------------
 */

static void mark_payload(uint8_t *payload, size_t size, uint32_t producer, uint64_t sequence) {
  put_u32(payload, PAYLOAD_MAGIC);
  put_u32(payload + 4, producer);
  put_u64(payload + 8, sequence);
  put_u32(payload + size - 4, crc32c(slice_of(payload, size - 4)));
}

bool load_read_payload(struct slice payload, uint32_t *producer, uint64_t *sequence) {
  if (payload.length < LOAD_MIN_VERIFIED_SIZE || get_u32(payload.data) != PAYLOAD_MAGIC)
    return false;
  struct slice covered = slice_of(payload.data, payload.length - 4);
  if (get_u32(payload.data + covered.length) != crc32c(covered)) return false;
  *producer = get_u32(payload.data + 4);
  *sequence = (uint64_t)get_u32(payload.data + 8) << 32 | get_u32(payload.data + 12);
  return true;
}

/* Text that compresses like base64, the same in every run. */
static void fill_text(uint8_t *place, size_t size, uint64_t *state) {
  for (size_t i = 0; i < size; i++) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    place[i] = (uint8_t)alphabet[*state >> 58];
  }
}

/* Keys that belong to the partition, as a client that partitions by key would send. */
static void make_key(char *key, int32_t partition, int64_t partitions, uint32_t *counter) {
  do {
    snprintf(key, KEY_LENGTH + 1, "k%08" PRIu32, (*counter)++ % 100000000u);
  } while (partitions > 1 &&
           hash_fnv1a64(slice_of(key, KEY_LENGTH)) % (uint64_t)partitions != (uint64_t)partition);
}

/* ---- templates ------------------------------------------------------------------------------- */

static const char *build_single(const struct load *load, int32_t partition,
                                struct load_template *template) {
  const struct bench_options *options = load->options;
  size_t size = (size_t)options->size;
  uint8_t *message = memory_allocate(size);
  uint64_t state = 1;
  fill_text(message, size, &state);
  char number[16], key[KEY_LENGTH + 1], producer[PRODUCER_LENGTH + 1];
  uint32_t counter = 0;
  snprintf(number, sizeof number, "%" PRId32, partition);
  snprintf(producer, sizeof producer, "bench-%08" PRIx32 "-000", load->run);
  struct request_field fields[8] = {
      {slice_text("topic"), slice_text(options->topic)},
      {slice_text("partition"), slice_text(number)},
      {slice_text("acks"), slice_text(options->acks)},
      {slice_text("producerId"), slice_text(producer)},
  };
  struct request_fields request = {.field_count = 4, .fields = fields};
  if (options->keyed) {
    make_key(key, partition, options->partitions, &counter);
    fields[request.field_count++] = (struct request_field){slice_text("key"), slice_text(key)};
  }
  if (options->idempotent) {
    fields[request.field_count++] =
        (struct request_field){slice_text("isIdempotent"), slice_text("true")};
    fields[request.field_count++] =
        (struct request_field){slice_text("seqNum"), slice_text("00000000000000000000")};
  }
  fields[request.field_count++] =
      (struct request_field){slice_text("message"), slice_of(message, size)};
  const char *problem = request_encode(&request, &template->payload);
  free(message);
  if (problem) return problem;
  /* Where the values ended up: found by reading the request back. */
  struct arena arena = {0};
  problem = request_decode(buffer_slice(&template->payload), &arena, &request);
  if (!problem) {
    const uint8_t *start = template->payload.data;
    const struct slice *sequence = request_find(&request, "seqNum");
    template->message = (size_t)(request_find(&request, "message")->data - start);
    template->producer = (size_t)(request_find(&request, "producerId")->data - start);
    if (sequence) template->sequence = (size_t)(sequence->data - start);
  }
  arena_release(&arena);
  return problem;
}

static const char *find_places(struct load_template *template) {
  struct arena arena = {0};
  struct batch batch;
  const char *problem = batch_decode(buffer_slice(&template->payload), &arena, &batch);
  if (!problem) {
    const uint8_t *start = template->payload.data;
    template->message = (size_t)(batch.records[0].payload.data - start);
    if (batch.records[0].producer_id.length) {
      template->producer = (size_t)(batch.records[0].producer_id.data - start);
    }
    if (batch.record_count > 1) {
      template->stride = (size_t)(batch.records[1].payload.data - batch.records[0].payload.data);
    }
    template->range = (size_t)(batch.acks.data + batch.acks.length - start);
  }
  arena_release(&arena);
  return problem;
}

static const char *build_batch(const struct load *load, int32_t partition,
                               struct load_template *template) {
  const struct bench_options *options = load->options;
  struct arena arena = {0};
  size_t count = (size_t)options->batch;
  size_t size = (size_t)options->size;
  char producer[PRODUCER_LENGTH + 1];
  snprintf(producer, sizeof producer, "bench-%08" PRIx32 "-000", load->run);
  struct batch batch = {
      .topic = slice_text(options->topic),
      .partition = partition,
      .acks = slice_text(options->acks),
      .idempotent = options->idempotent,
      .record_count = (uint32_t)count,
      .records = arena_allocate_zeroed(&arena, count * sizeof *batch.records),
  };
  uint8_t *messages = arena_allocate(&arena, count * size);
  char *keys = arena_allocate(&arena, count * (KEY_LENGTH + 1));
  uint64_t state = 1;
  uint32_t counter = 0;
  fill_text(messages, count * size, &state);
  for (size_t i = 0; i < count; i++) {
    batch.records[i].payload = slice_of(messages + i * size, size);
    if (options->keyed) {
      char *key = keys + i * (KEY_LENGTH + 1);
      make_key(key, partition, options->partitions, &counter);
      batch.records[i].key = slice_of(key, KEY_LENGTH);
    }
    if (options->idempotent) {
      batch.records[i].producer_id = slice_text(producer);
      batch.records[i].sequence = i + 1;
    }
  }
  const char *problem = batch_encode(&batch, &template->payload);
  arena_release(&arena);
  return problem ? problem : find_places(template);
}

static const char *encode_frame(const struct load *load, struct load_template *template) {
  const struct frame_header header = {
      .kind = FRAME_REQUEST,
      .compression = (enum compression)load->compression,
      .command = COMMAND_PUBLISH,
      .request_id = 1,
  };
  template->frame.length = 0;
  return frame_encode(&template->frame, &header, buffer_slice(&template->payload));
}

/* ---- patching -------------------------------------------------------------------------------- */

static void patch_producer(uint8_t *place, size_t connection) {
  char digits[8];
  snprintf(digits, sizeof digits, "%03u", (unsigned)(connection % 1000));
  memcpy(place + PRODUCER_LENGTH - 3, digits, 3);
}

static void patch_single(const struct load *load, struct load_template *template, size_t connection,
                         uint64_t count) {
  uint8_t *bytes = template->payload.data;
  patch_producer(bytes + template->producer, connection);
  if (!load->options->idempotent) return;
  char digits[SEQUENCE_DIGITS + 1];
  snprintf(digits, sizeof digits, "%020" PRIu64, count + 1);
  memcpy(bytes + template->sequence, digits, SEQUENCE_DIGITS);
}

static void patch_batch(const struct load *load, struct load_template *template, size_t connection,
                        uint64_t count) {
  if (!load->options->idempotent) return;
  uint8_t *bytes = template->payload.data;
  uint64_t records = (uint64_t)load->options->batch;
  put_u64(bytes + template->range, count + 1);
  put_u64(bytes + template->range + 8, count + records);
  for (uint64_t i = 0; i < records; i++) {
    uint8_t *producer = bytes + template->producer + i * template->stride;
    patch_producer(producer, connection);
    put_u64(producer + PRODUCER_LENGTH, count + i + 1);
  }
}

static void patch(const struct load *load, struct load_template *template, size_t connection,
                  uint64_t count, int64_t stamp) {
  const struct bench_options *options = load->options;
  if (options->batch == 1) {
    patch_single(load, template, connection, count);
  } else {
    patch_batch(load, template, connection, count);
  }
  if (!options->verify && stamp == 0) return;
  uint32_t producer = load->run ^ (uint32_t)connection;
  uint8_t *message = template->payload.data + template->message;
  for (uint64_t i = 0; i < (uint64_t)options->batch; i++) {
    mark_payload(message + i * template->stride, (size_t)options->size, producer,
                 stamp ? (uint64_t)stamp : count + i);
  }
}

/* ---- interface ------------------------------------------------------------------------------- */

void load_open(struct load *load, const struct bench_options *options, int compression) {
  uint64_t mixed = (uint64_t)clock_wall_us() * 0x9e3779b97f4a7c15u;
  *load = (struct load){
      .options = options,
      .compression = compression,
      .changes = options->idempotent || options->verify || options->rate > 0,
      .run = (uint32_t)(mixed >> 32) & 0xfffff000u,
      .counts = memory_allocate_zeroed((size_t)(options->connections * options->partitions),
                                       sizeof *load->counts),
      .templates = memory_allocate_zeroed((size_t)options->partitions, sizeof *load->templates),
  };
}

struct buffer *load_next(struct load *load, size_t connection, int32_t partition, int64_t stamp,
                         const char **problem) {
  struct load_template *template = &load->templates[partition];
  bool is_new = template->payload.length == 0;
  *problem = NULL;
  if (is_new) {
    *problem = load->options->batch == 1 ? build_single(load, partition, template)
                                         : build_batch(load, partition, template);
  }
  uint64_t *count =
      &load->counts[connection * (size_t)load->options->partitions + (size_t)partition];
  if (!*problem && (load->changes || is_new)) {
    patch(load, template, connection, *count, stamp);
    *problem = encode_frame(load, template);
  }
  *count += (uint64_t)load->options->batch;
  return *problem ? NULL : &template->frame;
}

void load_close(struct load *load) {
  for (int64_t i = 0; load->templates && i < load->options->partitions; i++) {
    buffer_release(&load->templates[i].payload);
    buffer_release(&load->templates[i].frame);
  }
  free(load->templates);
  free(load->counts);
}
