/* Frames and command numbers: which headers are refused, in which order, and what frame_finish()
 * does with the buffer it is given. */
#include "crs2/wire/frame.h"

#include "base/crc32c.h"
#include "unit.h"

static const struct frame_header request = {
    .kind = FRAME_REQUEST, .command = COMMAND_LIST, .status = FRAME_NONE, .request_id = 7};

/* Header bytes of a good request, to be spoilt. */
static void good_header(uint8_t bytes[FRAME_HEADER_SIZE]) {
  struct buffer out = {0};
  assert_null(frame_encode(&out, &request, slice_text("payload")));
  memcpy(bytes, out.data, FRAME_HEADER_SIZE);
  buffer_release(&out);
}

static const char *decode(const uint8_t *bytes, struct frame_header *header) {
  return frame_decode_header(bytes, COMPRESSION_NONE, NUMBERING_STANDARD, header);
}

static void a_header_says_what_was_sent(void **state) {
  (void)state;
  uint8_t bytes[FRAME_HEADER_SIZE];
  struct frame_header header;
  good_header(bytes);
  assert_null(decode(bytes, &header));
  assert_int_equal(header.kind, FRAME_REQUEST);
  assert_int_equal(header.command, COMMAND_LIST);
  assert_int_equal(header.status, FRAME_NONE);
  assert_int_equal(header.request_id, 7);
  assert_int_equal(header.encoded_length, 7);
  assert_int_equal(header.decoded_length, 7);
  assert_int_equal(header.crc32c, crc32c(slice_text("payload")));
}

/* Each later fault is added to the earlier ones; the first in the order of section 5 is reported.
 */
static void headers_are_checked_in_order(void **state) {
  (void)state;
  static const struct {
    size_t offset;
    uint8_t value;
    const char *refusal;
  } faults[] = {
      {9, 0, "unknown command"},
      {19, 0, "the request id is zero"},
      {11, 1, "the status does not fit the kind of frame"},
      {20, 0x80, "the payload is larger than 64 MiB"},
      {7, 0x03, "not the negotiated compression"},
      {7, 0x09, "unknown compression"},
      {7, 0x00, "compression is not explicit"},
      {7, 0x10, "reserved flags are set"},
      {6, 6, "unknown kind of frame"},
      {5, 3, "unsupported version"},
      {0, 'X', "bad magic"},
  };
  uint8_t bytes[FRAME_HEADER_SIZE];
  struct frame_header header;
  good_header(bytes);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    bytes[faults[i].offset] = faults[i].value;
    assert_string_equal(decode(bytes, &header), faults[i].refusal);
  }
}

static void set_u16(uint8_t *at, unsigned value) {
  at[0] = (uint8_t)(value >> 8);
  at[1] = (uint8_t)value;
}

/* Every kind, status, id and flag byte against the rules of sections 3 and 5, written down once
 * more. */
static void kinds_statuses_ids_and_flags(void **state) {
  (void)state;
  static const unsigned statuses_of[] = {0, 0x1, 0x6, 0x1, 0x6, 0xE};
  for (unsigned kind = 0; kind < 8; kind++)
    for (unsigned status = 0; status < 6; status++)
      for (unsigned id = 0; id < 2; id++)
        for (unsigned flags = 0; flags < 256; flags++) {
          uint8_t bytes[FRAME_HEADER_SIZE];
          struct frame_header header;
          good_header(bytes);
          bytes[6] = (uint8_t)kind;
          bytes[7] = (uint8_t)flags;
          bool handshake = kind == 1 || kind == 2;
          set_u16(bytes + 8, handshake ? COMMAND_NEGOTIATE : COMMAND_LIST);
          set_u16(bytes + 10, status);
          bytes[19] = (uint8_t)id;
          bool right = kind >= 1 && kind <= 5 && (statuses_of[kind] >> status & 1) &&
                       (handshake || id) && flags == (handshake ? 0x00 : 0x01);
          assert_int_equal(decode(bytes, &header) == NULL, right);
        }
}

static void only_the_negotiated_compression_is_taken(void **state) {
  (void)state;
  for (unsigned used = 0; used < 8; used++)
    for (unsigned negotiated = 0; negotiated < COMPRESSION_COUNT; negotiated++) {
      uint8_t bytes[FRAME_HEADER_SIZE];
      struct frame_header header;
      good_header(bytes);
      bytes[7] = (uint8_t)(1 | used << 1);
      const char *refusal =
          frame_decode_header(bytes, (enum compression)negotiated, NUMBERING_STANDARD, &header);
      assert_int_equal(refusal == NULL, used == negotiated);
    }
}

static void lengths_up_to_the_limit_are_taken(void **state) {
  (void)state;
  uint8_t bytes[FRAME_HEADER_SIZE];
  struct frame_header header;
  good_header(bytes);
  memcpy(bytes + 20, "\x04\0\0\0\x04\0\0\0", 8);
  assert_null(decode(bytes, &header));
  assert_int_equal(header.encoded_length, FRAME_MAX_PAYLOAD);
  memcpy(bytes + 20, "\x04\0\0\x01\x04\0\0\x01", 8);
  assert_non_null(decode(bytes, &header));
  memcpy(bytes + 20, "\0\0\0\x07\0\0\0\x08", 8); /* not compressed, yet two lengths */
  assert_non_null(decode(bytes, &header));
}

/* Nobody who has not even said hello may make the broker read more than a handshake. */
static void a_handshake_is_short(void **state) {
  (void)state;
  uint8_t bytes[FRAME_HEADER_SIZE];
  struct frame_header header;
  good_header(bytes);
  bytes[6] = FRAME_NEGOTIATION_REQUEST;
  bytes[7] = 0;
  set_u16(bytes + 8, COMMAND_NEGOTIATE);
  bytes[23] = bytes[27] = 10;
  assert_null(decode(bytes, &header));
  bytes[23] = bytes[27] = 11;
  assert_non_null(decode(bytes, &header));
}

static void negotiation_carries_46_or_47_in_both_numberings(void **state) {
  (void)state;
  for (unsigned numbering = 0; numbering < 2; numbering++)
    for (unsigned command = 0; command < 100; command++) {
      uint8_t bytes[FRAME_HEADER_SIZE];
      struct frame_header header;
      good_header(bytes);
      bytes[6] = FRAME_NEGOTIATION_REQUEST;
      bytes[7] = 0;
      set_u16(bytes + 8, command);
      const char *refusal =
          frame_decode_header(bytes, COMPRESSION_LZ4, (enum command_numbering)numbering, &header);
      assert_int_equal(refusal == NULL, command == 46 || command == 47);
    }
}

static void payloads_are_checked(void **state) {
  (void)state;
  struct frame_header header = request;
  struct buffer out = {0}, storage = {0};
  struct slice payload;
  assert_null(frame_encode(&out, &request, slice_text("payload")));
  assert_null(decode(out.data, &header));
  struct slice encoded = slice_of(out.data + FRAME_HEADER_SIZE, 7);
  assert_null(frame_decode_payload(&header, encoded, &storage, &payload));
  assert_ptr_equal(payload.data, encoded.data); /* a view: nothing was copied */
  assert_null(storage.data);
  for (size_t bit = 0; bit < 56; bit++) {
    out.data[FRAME_HEADER_SIZE + bit / 8] ^= (uint8_t)(1u << bit % 8);
    assert_non_null(frame_decode_payload(&header, encoded, &storage, &payload));
    out.data[FRAME_HEADER_SIZE + bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
  encoded.length = 6;
  assert_non_null(frame_decode_payload(&header, encoded, &storage, &payload));
  buffer_release(&out);
}

static void frames_follow_each_other_in_one_buffer(void **state) {
  (void)state;
  for (unsigned id = 0; id < COMPRESSION_COUNT; id++) {
    struct frame_header header = request;
    header.compression = (enum compression)id;
    struct buffer out = {0};
    for (unsigned i = 0; i < 3; i++) {
      header.request_id = i + 1;
      size_t start = frame_begin(&out);
      buffer_append_format(&out, "payload number %u", i);
      assert_null(frame_finish(&out, start, &header));
    }
    struct slice rest = buffer_slice(&out);
    for (unsigned i = 0; i < 3; i++) {
      struct frame_header got;
      struct buffer storage = {0};
      struct slice payload;
      assert_null(frame_decode_header(rest.data, header.compression, NUMBERING_STANDARD, &got));
      assert_int_equal(got.request_id, i + 1);
      struct slice encoded = slice_of(rest.data + FRAME_HEADER_SIZE, got.encoded_length);
      assert_null(frame_decode_payload(&got, encoded, &storage, &payload));
      char want[32];
      snprintf(want, sizeof want, "payload number %u", i);
      assert_slice_text(payload, want);
      rest.data += FRAME_HEADER_SIZE + got.encoded_length;
      rest.length -= FRAME_HEADER_SIZE + got.encoded_length;
      buffer_release(&storage);
    }
    assert_int_equal(rest.length, 0);
    buffer_release(&out);
  }
}

static void an_uncompressed_payload_stays_where_it_is(void **state) {
  (void)state;
  struct buffer out = {0};
  size_t start = frame_begin(&out);
  memset(buffer_extend(&out, 100000), 'x', 100000);
  const uint8_t *place = out.data;
  size_t capacity = out.capacity;
  assert_null(frame_finish(&out, start, &request));
  assert_ptr_equal(out.data, place);
  assert_int_equal(out.capacity, capacity);
  assert_int_equal(out.length, FRAME_HEADER_SIZE + 100000);
  buffer_release(&out);
}

/* A slow consumer makes frames wait; what waits must not hold the worst case of its compressor. */
static void a_compressed_frame_holds_little_more_than_itself(void **state) {
  (void)state;
  for (unsigned id = COMPRESSION_GZIP; id < COMPRESSION_COUNT; id++) {
    struct frame_header header = request;
    header.compression = (enum compression)id;
    struct buffer out = {0};
    size_t start = frame_begin(&out);
    memset(buffer_extend(&out, 1000000), 'x', 1000000);
    assert_null(frame_finish(&out, start, &header));
    assert_true(out.capacity <= 2 * out.length || out.capacity < 65536);
    buffer_release(&out);
  }
}

static void a_payload_above_the_limit_is_cut_off(void **state) {
  (void)state;
  for (unsigned id = 0; id < COMPRESSION_COUNT; id++) {
    struct frame_header header = request;
    header.compression = (enum compression)id;
    struct buffer out = {0};
    buffer_append_text(&out, "before");
    size_t start = frame_begin(&out);
    memset(buffer_extend(&out, FRAME_MAX_PAYLOAD + 1), 0, FRAME_MAX_PAYLOAD + 1);
    struct slice payload = slice_of(out.data + start + FRAME_HEADER_SIZE, FRAME_MAX_PAYLOAD + 1);
    struct buffer other = {0};
    assert_non_null(frame_encode(&other, &header, payload));
    assert_int_equal(other.length, 0);
    assert_non_null(frame_finish(&out, start, &header));
    assert_slice_text(buffer_slice(&out), "before");
    buffer_release(&out);
    buffer_release(&other);
  }
}

/* Noise does not compress: the plain payload fits and its compressed form does not. */
static void a_compressed_form_above_the_limit_is_refused(void **state) {
  (void)state;
  struct frame_header header = request;
  header.compression = COMPRESSION_LZ4;
  struct buffer out = {0};
  uint64_t noise = 1234567;
  size_t start = frame_begin(&out);
  uint8_t *payload = buffer_extend(&out, FRAME_MAX_PAYLOAD);
  for (size_t i = 0; i < FRAME_MAX_PAYLOAD; i += 8) {
    uint64_t value = noise_next(&noise);
    memcpy(payload + i, &value, sizeof value);
  }
  assert_non_null(frame_finish(&out, start, &header));
  assert_int_equal(out.length, 0);
  buffer_release(&out);
}

static void negotiation_frames_have_no_compression(void **state) {
  (void)state;
  struct frame_header header = {.kind = FRAME_NEGOTIATION_RESPONSE,
                                .compression = COMPRESSION_GZIP,
                                .command = COMMAND_NEGOTIATE,
                                .status = FRAME_OK},
                      got;
  struct buffer out = {0};
  size_t start = frame_begin(&out);
  buffer_append(&out, "\0\x02\x01", 3);
  assert_null(frame_finish(&out, start, &header));
  assert_int_equal(out.length, FRAME_HEADER_SIZE + 3);
  assert_int_equal(out.data[7], 0);
  assert_null(frame_decode_header(out.data, COMPRESSION_GZIP, NUMBERING_STANDARD, &got));
  assert_int_equal(got.compression, COMPRESSION_NONE);
  buffer_release(&out);
}

/* ---- command numbers ---- */

static void numberings_map_both_ways(void **state) {
  (void)state;
  for (unsigned numbering = 0; numbering < 2; numbering++) {
    bool seen[COMMAND_COUNT] = {false};
    for (uint16_t wire = 1; wire < COMMAND_COUNT; wire++) {
      uint16_t command = command_from_wire((enum command_numbering)numbering, wire);
      assert_in_range(command, 1, COMMAND_COUNT - 1);
      assert_false(seen[command]);
      seen[command] = true;
      assert_int_equal(command_to_wire((enum command_numbering)numbering, command), wire);
    }
    assert_int_equal(command_from_wire((enum command_numbering)numbering, 0), 0);
    assert_int_equal(command_from_wire((enum command_numbering)numbering, COMMAND_COUNT), 0);
    assert_int_equal(command_from_wire((enum command_numbering)numbering, 65535), 0);
    assert_int_equal(command_to_wire((enum command_numbering)numbering, 65535), 0);
  }
}

static void the_shifted_numbering_is_section_6_1(void **state) {
  (void)state;
  static const struct {
    uint16_t wire, command;
  } rows[] = {{1, COMMAND_AUTH},
              {28, COMMAND_TXN_PUBLISH},
              {29, COMMAND_TXN_APPEND_STREAM},
              {30, COMMAND_SEND_OFFSETS_TO_TXN},
              {45, COMMAND_METADATA},
              {46, COMMAND_INTERNAL_BATCH},
              {47, COMMAND_NEGOTIATE},
              {48, COMMAND_EXIT},
              {53, COMMAND_AGGREGATE_REPLAY_PROOF},
              {54, COMMAND_AGGREGATE_EVENT_RANGE_READ},
              {55, COMMAND_BROWSE_MESSAGES},
              {56, COMMAND_READ_STREAM_HISTORY}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    assert_int_equal(command_from_wire(NUMBERING_SHIFTED, rows[i].wire), rows[i].command);
}

static void names_are_found_in_any_case(void **state) {
  (void)state;
  assert_int_equal(command_by_name(slice_text("publish")), COMMAND_PUBLISH);
  assert_int_equal(command_by_name(slice_text("Txn_Append_Stream")), COMMAND_TXN_APPEND_STREAM);
  assert_int_equal(command_by_name(slice_text("PUBLIS")), 0);
  assert_int_equal(command_by_name(slice_text("PUBLISHX")), 0);
  assert_int_equal(command_by_name(slice_of(NULL, 0)), 0);
  assert_string_equal(command_name(COMMAND_EXIT), "EXIT");
  assert_string_equal(command_name(0), "UNKNOWN");
  assert_string_equal(command_name(57), "UNKNOWN");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_header_says_what_was_sent),
      cmocka_unit_test(headers_are_checked_in_order),
      cmocka_unit_test(kinds_statuses_ids_and_flags),
      cmocka_unit_test(only_the_negotiated_compression_is_taken),
      cmocka_unit_test(lengths_up_to_the_limit_are_taken),
      cmocka_unit_test(a_handshake_is_short),
      cmocka_unit_test(negotiation_carries_46_or_47_in_both_numberings),
      cmocka_unit_test(payloads_are_checked),
      cmocka_unit_test(frames_follow_each_other_in_one_buffer),
      cmocka_unit_test(an_uncompressed_payload_stays_where_it_is),
      cmocka_unit_test(a_compressed_frame_holds_little_more_than_itself),
      cmocka_unit_test(a_payload_above_the_limit_is_cut_off),
      cmocka_unit_test(a_compressed_form_above_the_limit_is_refused),
      cmocka_unit_test(negotiation_frames_have_no_compression),
      cmocka_unit_test(numberings_map_both_ways),
      cmocka_unit_test(the_shifted_numbering_is_section_6_1),
      cmocka_unit_test(names_are_found_in_any_case),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
