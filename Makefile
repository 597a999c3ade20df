# pgcursus: every habit is a target.  `make help` lists them.

SHELL      := /bin/bash
.SHELLFLAGS := -o pipefail -ec
MAKEFLAGS  += --no-builtin-rules
.DEFAULT_GOAL := build
.SECONDARY: # keep the objects of test programs

# ---------------------------------------------------------------- packages
# Everything the project needs on Debian 12.  `make deps` installs what is missing.
PACKAGES := build-essential pkg-config libev-dev libpq-dev libssl-dev zlib1g-dev liblz4-dev libsnappy-dev \
            libjson-c-dev uthash-dev libyaml-dev libmicrohttpd-dev libisal-dev libcmocka-dev \
            postgresql-15 postgresql-client-15 postgresql-15-pgtap postgresql-15-plpgsql-check libtap-parser-sourcehandler-pgtap-perl \
            python3 python3-pytest util-linux procps git curl
TEST_PACKAGES := haproxy pgbouncer
LINT_PACKAGES := clang-format clang-tidy clang shellcheck yamllint haproxy jq python3-yaml
FUZZ_PACKAGES := clang libclang-rt-14-dev

# ---------------------------------------------------------------- flavours
# make SANITIZE=1 ... builds into build-asan/ with AddressSanitizer and UBSan.
CC       := gcc
SANITIZE ?= 0
ifeq ($(SANITIZE),1)
BUILD    := build-asan
OPTIMIZE := -O1 -g3 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
else
BUILD    := build
OPTIMIZE := -O2 -g
endif

VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
WARNINGS := -Wall -Wextra -Wformat=2 -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror
DEFINES  := -D_GNU_SOURCE
PG_CFLAGS := $(shell pkg-config --cflags libpq 2>/dev/null)
INCLUDES := -Ibroker -Iclient/lib -I$(BUILD)/gen $(PG_CFLAGS)
CFLAGS   := -std=c17 $(OPTIMIZE) $(WARNINGS) $(DEFINES) $(INCLUDES) -pthread
LDFLAGS  := $(OPTIMIZE) -pthread
CODEC_LIBS  := -lz -llz4 -lsnappy -lisal
BROKER_LIBS := $(CODEC_LIBS) -lev -lpq -ljson-c -lyaml -lmicrohttpd -lssl -lcrypto -lm
CLIENT_LIBS := $(CODEC_LIBS) -lssl -lcrypto -lm

# One short line a file; `make V=1` shows the commands.
V ?= 0
ifeq ($(V),1)
say =
Q   =
else
say = @printf '  %-5s %s\n' $(1) $(2);
Q   = @
endif

# ---------------------------------------------------------------- sources
BROKER_SOURCES := $(filter-out broker/main.c,$(shell find broker -name '*.c' | LC_ALL=C sort))
CODEC_SOURCES  := $(filter-out broker/base/worker.c,$(wildcard broker/base/*.c)) $(wildcard broker/crs2/wire/*.c)
LIBRARY_SOURCES := $(CODEC_SOURCES) broker/net/tls_socket.c $(wildcard client/lib/*.c)
CLI_SOURCES    := $(wildcard client/cli/*.c)
UNIT_SOURCES   := $(wildcard tests/unit/test_*.c)
UNIT_SUPPORT   := $(filter-out $(UNIT_SOURCES),$(wildcard tests/unit/*.c))
SQL_FILES      := $(shell find sql -name '*.sql' | LC_ALL=C sort)

object = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
BROKER_OBJECTS  := $(call object,$(BROKER_SOURCES)) $(BUILD)/obj/gen/sql_files.o
LIBRARY_OBJECTS := $(call object,$(LIBRARY_SOURCES))
CLI_OBJECTS     := $(call object,$(CLI_SOURCES))
UNIT_PROGRAMS   := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(UNIT_SOURCES))

.PHONY: build
build: $(BUILD)/pgcursusd $(BUILD)/pgcursus $(BUILD)/libpgcursus.a ## the broker, the CLI and the client library

$(BUILD)/obj/%.o: %.c
	$(call say,CC,$<)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -MMD -MP -c $< -o $@

# The two programs that print their version.
$(BUILD)/obj/broker/main.o $(BUILD)/obj/client/cli/main.o: CFLAGS += -DPGCURSUS_VERSION='"$(VERSION)"'

$(BUILD)/gen/sql_files.c: tools/embed-sql $(SQL_FILES) sql
	$(call say,SQL,$@)mkdir -p $(@D)
	$(Q)tools/embed-sql sql > $@.tmp && mv $@.tmp $@

$(BUILD)/obj/gen/sql_files.o: $(BUILD)/gen/sql_files.c
	$(call say,CC,$<)mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -c $< -o $@

$(BUILD)/libbroker.a: $(BROKER_OBJECTS)
	$(call say,AR,$@)rm -f $@
	$(Q)ar rcs $@ $^

$(BUILD)/libpgcursus.a: $(LIBRARY_OBJECTS)
	$(call say,AR,$@)rm -f $@
	$(Q)ar rcs $@ $^

$(BUILD)/pgcursusd: $(BUILD)/obj/broker/main.o $(BUILD)/libbroker.a
	$(call say,LD,$@)$(CC) $(LDFLAGS) $^ $(BROKER_LIBS) -o $@

$(BUILD)/pgcursus: $(CLI_OBJECTS) $(BUILD)/libpgcursus.a
	$(call say,LD,$@)$(CC) $(LDFLAGS) $^ $(CLIENT_LIBS) -lpq -ljson-c -o $@

$(BUILD)/pgcursus-floor: $(call object,$(wildcard bench/*.c)) $(BUILD)/libbroker.a
	$(call say,LD,$@)$(CC) $(LDFLAGS) $^ $(BROKER_LIBS) -o $@

$(BUILD)/list-commands: $(call object,tools/list_commands.c) $(BUILD)/libbroker.a
	$(call say,LD,$@)$(CC) $(LDFLAGS) $^ $(BROKER_LIBS) -o $@

# Each unit test is a program of its own: it may replace a seam without touching the others.
$(BUILD)/tests/%: $(BUILD)/obj/tests/unit/%.o $(call object,$(UNIT_SUPPORT)) $(BUILD)/libbroker.a $(BUILD)/libpgcursus.a
	$(call say,LD,$@)mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $^ $(BROKER_LIBS) -lcmocka -o $@

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)

# ---------------------------------------------------------------- habits
.PHONY: deps
deps: ## install the missing Debian packages (root or sudo); nothing when all are there
	@tools/install-packages $(PACKAGES)

.PHONY: deps-test
deps-test:
	@tools/install-packages $(TEST_PACKAGES)

.PHONY: deps-lint
deps-lint:
	@tools/install-packages $(LINT_PACKAGES)

.PHONY: deps-fuzz
deps-fuzz:
	@tools/install-packages $(FUZZ_PACKAGES)

.PHONY: run
run: deps ## a private PostgreSQL under .run/ and one broker on 127.0.0.1:9000, HTTP on 9080
	@$(MAKE) --no-print-directory build
	@tools/run

.PHONY: unit
unit: $(UNIT_PROGRAMS) ## build the unit tests

.PHONY: test
test: deps deps-test ## every test: unit, SQL, end to end
	@$(MAKE) --no-print-directory build unit
	@PGCURSUS_BUILD=$(BUILD) tests/run

.PHONY: asan
asan: deps deps-test ## the whole suite again under AddressSanitizer and UBSan
	@$(MAKE) --no-print-directory SANITIZE=1 build unit
	@PGCURSUS_BUILD=build-asan tests/run

.PHONY: bench
bench: deps ## the raw-SQL floor and the broker under the same load, as ratios
	@$(MAKE) --no-print-directory build $(BUILD)/pgcursus-floor
	@bench/run $(BENCH_OPTIONS)

.PHONY: fuzz
fuzz: deps-fuzz ## every fuzz target for FUZZ_SECONDS (30) each
	@tests/fuzz/run

C_FILES := $(shell find broker client bench tests -name '*.[ch]' | LC_ALL=C sort)

.PHONY: fmt
fmt: deps-lint ## format the C sources
	@clang-format -i $(C_FILES)

.PHONY: lint
lint: deps deps-lint ## formatting, static analysis, shell and YAML checks
	@tools/lint

.PHONY: docs
docs: build $(BUILD)/list-commands ## regenerate the reference pages made from tables in the code
	@tools/docs

.PHONY: clean
clean: ## remove what was built (never .run/)
	rm -rf build build-asan build-fuzz

.PHONY: help
help:
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 12
