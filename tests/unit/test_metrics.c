/* Metrics, as a Prometheus server reads them. Families live as long as the program, so each test
 * looks for its own lines in the whole page. */
#include "base/metrics.h"

#include <math.h>

#include "unit.h"

static char page[65536];

static const char *render(void) {
  struct buffer out = {0};
  metrics_render(&out);
  assert_true(out.length < sizeof page);
  memcpy(page, out.data, out.length);
  page[out.length] = '\0';
  buffer_release(&out);
  return page;
}

static void assert_shows(const char *lines) {
  if (!strstr(render(), lines)) fail_msg("not found:\n%s\nin:\n%s", lines, page);
}

static void counters_and_gauges(void **state) {
  (void)state;
  struct metric *counter = metric_counter("test_requests_total", "Requests.", "command", "outcome");
  metric_add(metric_with(counter, "LIST", "ok"), 1);
  metric_add(metric_with(counter, "LIST", "ok"), 2);
  metric_add(metric_with(counter, "LIST", "error"), 1);
  struct metric *gauge = metric_gauge("test_connections", "Connections.", NULL, NULL);
  metric_set(metric_with(gauge, NULL, NULL), 10);
  metric_add(metric_with(gauge, NULL, NULL), -2.5);
  assert_true(fabs(metric_value(metric_with(counter, "LIST", "ok")) - 3) < 1e-9);
  assert_shows(
      "# HELP test_requests_total Requests.\n"
      "# TYPE test_requests_total counter\n"
      "test_requests_total{command=\"LIST\",outcome=\"ok\"} 3\n"
      "test_requests_total{command=\"LIST\",outcome=\"error\"} 1\n");
  assert_shows("# TYPE test_connections gauge\ntest_connections 7.5\n");
}

static void histograms_are_cumulative(void **state) {
  (void)state;
  static const double bounds[] = {0.005, 0.1, 1};
  struct metric *histogram = metric_histogram("test_seconds", "Time.", "command", NULL, bounds, 3);
  struct metric_series *series = metric_with(histogram, "PUBLISH", NULL);
  metric_observe(series, 0.001);
  metric_observe(series, 0.005); /* a bound belongs to its bucket */
  metric_observe(series, 0.5);
  metric_observe(series, 7);
  assert_shows(
      "# TYPE test_seconds histogram\n"
      "test_seconds_bucket{command=\"PUBLISH\",le=\"0.005\"} 2\n"
      "test_seconds_bucket{command=\"PUBLISH\",le=\"0.1\"} 2\n"
      "test_seconds_bucket{command=\"PUBLISH\",le=\"1\"} 3\n"
      "test_seconds_bucket{command=\"PUBLISH\",le=\"+Inf\"} 4\n"
      "test_seconds_sum{command=\"PUBLISH\"} 7.506\n"
      "test_seconds_count{command=\"PUBLISH\"} 4\n");
}

static void a_histogram_without_labels(void **state) {
  (void)state;
  static const double bounds[] = {1};
  struct metric *histogram = metric_histogram("test_bytes", "Size.", NULL, NULL, bounds, 1);
  metric_observe(metric_with(histogram, NULL, NULL), 1);
  assert_shows(
      "test_bytes_bucket{le=\"1\"} 1\n"
      "test_bytes_bucket{le=\"+Inf\"} 1\n"
      "test_bytes_sum 1\n"
      "test_bytes_count 1\n");
}

static void text_is_escaped(void **state) {
  (void)state;
  struct metric *counter =
      metric_counter("test_odd_total", "Back\\slash\nand \"quotes\".", "l", NULL);
  metric_add(metric_with(counter, "a\"b\\c\nd", NULL), 1);
  assert_shows("# HELP test_odd_total Back\\\\slash\\nand \"quotes\".\n");
  assert_shows("test_odd_total{l=\"a\\\"b\\\\c\\nd\"} 1\n");
}

static void series_are_found_again(void **state) {
  (void)state;
  struct metric *gauge = metric_gauge("test_lag", "Lag.", "a", "b");
  struct metric_series *first = metric_with(gauge, "x", "y");
  assert_ptr_equal(metric_with(gauge, "x", "y"), first);
  assert_ptr_not_equal(metric_with(gauge, "xy", ""), first);
  assert_ptr_not_equal(metric_with(gauge, "x", NULL), first);
  /* What a value contains cannot make two series look like one. */
  assert_ptr_not_equal(metric_with(gauge, "1\",b=\"2", NULL), metric_with(gauge, "1", "2"));
  assert_ptr_equal(metric_gauge("test_lag", "Lag.", "a", "b"), gauge);
}

static void numbers_read_back_exactly(void **state) {
  (void)state;
  static const double values[] = {0, 1, 1e15, 123456789012345680, 0.1, 1.0 / 3, 1e-300, -2};
  struct metric_series *series =
      metric_with(metric_gauge("test_number", "Number.", NULL, NULL), NULL, NULL);
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    metric_set(series, values[i]);
    const char *line = strstr(render(), "\ntest_number ");
    assert_non_null(line);
    double got = strtod(line + 13, NULL);
    assert_memory_equal(&got, &values[i], sizeof got);
  }
  metric_set(series, (double)INFINITY);
  assert_shows("test_number +Inf\n");
  metric_set(series, (double)NAN);
  assert_shows("test_number NaN\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counters_and_gauges),        cmocka_unit_test(histograms_are_cumulative),
      cmocka_unit_test(a_histogram_without_labels), cmocka_unit_test(text_is_escaped),
      cmocka_unit_test(series_are_found_again),     cmocka_unit_test(numbers_read_back_exactly),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
