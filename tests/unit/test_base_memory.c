/* Buffers, arenas and the allocator under them. */
#include "base/arena.h"
#include "base/buffer.h"
#include "base/cursor.h"
#include "base/memory.h"
#include "unit.h"

static void integers_are_in_network_order(void **state) {
  (void)state;
  struct buffer out = {0};
  buffer_append_u8(&out, 0x01);
  buffer_append_u16(&out, 0x0203);
  buffer_append_u32(&out, 0x04050607);
  buffer_append_u64(&out, 0x08090A0B0C0D0E0F);
  assert_int_equal(out.length, 15);
  for (unsigned i = 0; i < 15; i++) assert_int_equal(out.data[i], i + 1);
  struct cursor cursor = cursor_over(buffer_slice(&out));
  assert_int_equal(cursor_u8(&cursor), 0x01);
  assert_int_equal(cursor_u16(&cursor), 0x0203);
  assert_int_equal(cursor_u32(&cursor), 0x04050607);
  assert_int_equal(cursor_u64(&cursor), 0x08090A0B0C0D0E0F);
  assert_true(cursor_is_finished(&cursor));
  buffer_release(&out);
}

static void a_buffer_grows_and_keeps_its_bytes(void **state) {
  (void)state;
  struct buffer out = {0};
  for (unsigned i = 0; i < 100000; i++) buffer_append_u32(&out, i);
  assert_int_equal(out.length, 400000);
  assert_true(out.capacity < 4 * out.length);
  for (unsigned i = 0; i < 100000; i++) {
    struct cursor cursor = cursor_over(slice_of(out.data + 4 * (size_t)i, 4));
    assert_int_equal(cursor_u32(&cursor), i);
  }
  buffer_release(&out);
  assert_null(out.data);
  assert_int_equal(out.capacity, 0);
}

static void reserving_changes_no_length(void **state) {
  (void)state;
  struct buffer out = {0};
  assert_non_null(buffer_reserve(&out, 0));
  uint8_t *place = buffer_reserve(&out, 1000);
  assert_int_equal(out.length, 0);
  assert_true(out.capacity >= 1000);
  assert_ptr_equal(buffer_extend(&out, 1000), place);
  assert_int_equal(out.length, 1000);
  buffer_release(&out);
}

static void nothing_may_be_appended(void **state) {
  (void)state;
  struct buffer out = {0};
  buffer_append(&out, NULL, 0);
  buffer_append_slice(&out, slice_of(NULL, 0));
  buffer_append_text(&out, "");
  buffer_append_format(&out, "%s", "");
  buffer_drop_front(&out, 0);
  assert_int_equal(out.length, 0);
  buffer_release(&out);
}

static void text_and_formats_have_no_nul(void **state) {
  (void)state;
  struct buffer out = {0};
  buffer_append_text(&out, "a=");
  buffer_append_format(&out, "%d;%s", -5,
                       "long enough to need the buffer to grow beyond its first size");
  assert_slice_text(buffer_slice(&out),
                    "a=-5;long enough to need the buffer to grow beyond its first size");
  buffer_release(&out);
}

static void patching_and_dropping(void **state) {
  (void)state;
  struct buffer out = {0};
  buffer_append_text(&out, "0123456789");
  buffer_patch_u32(&out, 6, 0x61626364);
  assert_slice_text(buffer_slice(&out), "012345abcd");
  buffer_drop_front(&out, 4);
  assert_slice_text(buffer_slice(&out), "45abcd");
  buffer_drop_front(&out, 6);
  assert_int_equal(out.length, 0);
  buffer_release(&out);
}

static void a_cursor_stays_failed(void **state) {
  (void)state;
  struct cursor cursor = cursor_over(slice_of("\0\0\0\5abc", 7));
  assert_int_equal(cursor_bytes(&cursor).length, 0);
  assert_true(cursor.failed);
  assert_int_equal(cursor_u8(&cursor), 0);
  assert_int_equal(cursor_remaining(&cursor), 0);
  assert_false(cursor_is_finished(&cursor));
  cursor = cursor_over(slice_of(NULL, 0));
  assert_true(cursor_is_finished(&cursor));
  assert_int_equal(cursor_u16(&cursor), 0);
  assert_true(cursor.failed);
}

static void arena_blocks_are_aligned_and_apart(void **state) {
  (void)state;
  struct arena arena = {0};
  uint64_t noise = 3;
  uint8_t *blocks[2000];
  size_t sizes[2000];
  for (unsigned i = 0; i < 2000; i++) {
    sizes[i] = noise_below(&noise, i % 50 ? 200 : 20000);
    blocks[i] = arena_allocate(&arena, sizes[i]);
    assert_int_equal((uintptr_t)blocks[i] % _Alignof(max_align_t), 0);
    memset(blocks[i], (int)(i & 0xFF), sizes[i]);
  }
  for (unsigned i = 0; i < 2000; i++)
    for (size_t at = 0; at < sizes[i]; at++) assert_int_equal(blocks[i][at], i & 0xFF);
  arena_release(&arena);
  assert_null(arena.chunks);
  assert_int_equal(arena.allocated, 0);
}

/* The budget is charged by what an arena holds, so that must stay near what was asked for. */
static void an_arena_wastes_little(void **state) {
  (void)state;
  struct arena arena = {0};
  assert_non_null(arena_allocate(&arena, 1));
  assert_true(arena.allocated <= 4200);
  assert_non_null(arena_allocate(&arena, 1000000));
  assert_true(arena.allocated <= 1004300);
  /* The large block did not displace the chunk in use. */
  size_t before = arena.allocated;
  for (unsigned i = 0; i < 100; i++) assert_non_null(arena_allocate(&arena, 16));
  assert_int_equal(arena.allocated, before);
  for (unsigned i = 0; i < 100000; i++) assert_non_null(arena_allocate(&arena, 100));
  assert_true(arena.allocated < 1004300 + 100000 * 112 + 200000);
  arena_release(&arena);
}

static void arena_text(void **state) {
  (void)state;
  struct arena arena = {0};
  assert_string_equal(arena_copy_text(&arena, slice_text("copied")), "copied");
  assert_string_equal(arena_copy_text(&arena, slice_of(NULL, 0)), "");
  assert_string_equal(arena_format(&arena, "%s-%u", "node", 7u), "node-7");
  uint8_t *zeroed = arena_allocate_zeroed(&arena, 3000);
  for (unsigned i = 0; i < 3000; i++) assert_int_equal(zeroed[i], 0);
  arena_release(&arena);
  arena_release(&arena);
}

static void empty_blocks_are_blocks(void **state) {
  (void)state;
  void *block = memory_allocate(0);
  block = memory_resize(block, 0);
  free(block);
  free(memory_allocate_zeroed(0, 8));
  char *copy = memory_copy_text("text");
  assert_string_equal(copy, "text");
  free(copy);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(integers_are_in_network_order),
      cmocka_unit_test(a_buffer_grows_and_keeps_its_bytes),
      cmocka_unit_test(reserving_changes_no_length),
      cmocka_unit_test(nothing_may_be_appended),
      cmocka_unit_test(text_and_formats_have_no_nul),
      cmocka_unit_test(patching_and_dropping),
      cmocka_unit_test(a_cursor_stays_failed),
      cmocka_unit_test(arena_blocks_are_aligned_and_apart),
      cmocka_unit_test(an_arena_wastes_little),
      cmocka_unit_test(arena_text),
      cmocka_unit_test(empty_blocks_are_blocks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
