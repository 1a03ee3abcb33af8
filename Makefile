# SPDX-License-Identifier: Apache-2.0
# vgw-agent: `sudo make demo` shows the main job, `sudo make check` does all the set-up and passes the tests.

CC ?= cc
BUILD ?= build
PREFIX ?= /usr
SYSCONFDIR ?= /etc
VERSION := 0.1.0

PKGS := libnl-3.0 libnl-route-3.0 libmnl libnftnl libcjson
PKG_CONFIG ?= pkg-config

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-declarations -Wformat=2 -Wvla \
	-Wno-unused-parameter -Wno-missing-field-initializers
HARDEN := -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fPIE -fstack-clash-protection
LDHARDEN := -pie -Wl,-z,relro,-z,now -Wl,--as-needed
OPT ?= -O2 -g
SANITIZE ?=
# libev's event macros pun between its structs, by design
LANG_FLAGS := -std=gnu11 -fno-strict-aliasing
CPPFLAGS += -I. -DVGW_VERSION='"$(VERSION)"' -D_GNU_SOURCE
WERROR ?=
ALL_CFLAGS = $(LANG_FLAGS) $(OPT) $(WARN) $(WERROR) $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all,$(HARDEN)) \
	$(PKG_CFLAGS) $(CFLAGS)
ALL_LDFLAGS = $(if $(SANITIZE),-fsanitize=$(SANITIZE),$(LDHARDEN)) $(LDFLAGS)
PKG_CFLAGS = $(shell $(PKG_CONFIG) --cflags $(PKGS) 2>/dev/null | sed 's/-I/-isystem /g')
PKG_LIBS = $(shell $(PKG_CONFIG) --libs $(PKGS) 2>/dev/null)
LIBS = $(PKG_LIBS) -lmbedtls -lmbedx509 -lmbedcrypto -lev -lhttp_parser -lm

ifeq ($(V),1)
Q :=
say = @:
else
Q := @
say = @printf '  %-7s %s\n'
endif

BASE_SRC := $(sort $(wildcard netcfg/base/*.c))
MODEL_SRC := $(sort $(wildcard netcfg/model/*.c vgw/model/*.c))
AGENT_SRC := $(sort $(wildcard netcfg/kernel/*.c vgw/*.c vgw/probe/*.c vgw/control/*.c vgw/report/*.c vgw/cli/*.c))
UNIT_SRC := $(sort $(wildcard tests/unit/test_*.c))
C_FILES := agent.c $(BASE_SRC) $(MODEL_SRC) $(AGENT_SRC) $(sort $(wildcard tests/unit/*.c tests/bench/*.c))
H_FILES := $(sort $(wildcard netcfg/*/*.h vgw/*.h vgw/*/*.h tests/unit/*.h tests/bench/*.h))

obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
BASE_LIB := $(BUILD)/libbase.a
MODEL_LIB := $(BUILD)/libmodel.a
AGENT_LIB := $(BUILD)/libagent.a
BIN := $(BUILD)/vgw-agent
UNIT_BIN := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(UNIT_SRC))

.PHONY: all check check-unit check-unit-run check-host check-fuzz fuzz bench demo setup format lint clean install FORCE
all: $(BIN)

$(BIN): $(BUILD)/obj/agent.o $(AGENT_LIB) $(MODEL_LIB) $(BASE_LIB)
	$(say) LD $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)

$(BASE_LIB): $(call obj,$(BASE_SRC))
$(MODEL_LIB): $(call obj,$(MODEL_SRC))
$(AGENT_LIB): $(call obj,$(AGENT_SRC))
%.a:
	$(say) AR $@
	$(Q)rm -f $@ && ar rcs $@ $^

# Another compiler or other flags mean other objects.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(CC) $(subst ','\'',$(CPPFLAGS) $(ALL_CFLAGS) $(ALL_LDFLAGS))' > $@.new
	@cmp -s $@.new $@ && rm -f $@.new || mv $@.new $@

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/unit/%: $(BUILD)/obj/tests/unit/%.o $(AGENT_LIB) $(MODEL_LIB) $(BASE_LIB)
	@mkdir -p $(@D)
	$(say) LD $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS) -lcmocka

.SECONDARY:
-include $(patsubst %.o,%.d,$(call obj,$(C_FILES)))

setup:
	@packaging/setup.sh

# Tests are run with the sanitizers as well: a build of its own, so that neither disturbs the other.
check: setup
	@tests/run-all.sh

check-unit-run: $(UNIT_BIN)
	@CMOCKA_MESSAGE_OUTPUT=tap prove -e '' $(if $(filter 1,$(V)),-v) $(UNIT_BIN)

check-unit: check-unit-run
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/asan SANITIZE=address,undefined OPT='-O1 -g' check-unit-run

# Every parser of foreign bytes. `make fuzz` looks for new inputs; `make check-fuzz` replays those that were kept.
FUZZ_SECONDS ?= 60
FUZZ_NAMES := $(patsubst tests/fuzz/fuzz_%.c,%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
FUZZ_FLAGS := -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -O1 -g
$(BUILD)/fuzz/%: tests/fuzz/fuzz_%.c $(BASE_SRC) $(MODEL_SRC) $(AGENT_SRC) $(H_FILES)
	@mkdir -p $(@D)
	$(say) FUZZ $@
	$(Q)clang $(LANG_FLAGS) $(CPPFLAGS) $(PKG_CFLAGS) $(FUZZ_FLAGS) -o $@ $< $(BASE_SRC) $(MODEL_SRC) $(AGENT_SRC) $(LIBS)

fuzz: $(addprefix $(BUILD)/fuzz/,$(FUZZ_NAMES))
	@for name in $(FUZZ_NAMES); do mkdir -p $(BUILD)/fuzz/new-$$name && $(BUILD)/fuzz/$$name \
		-max_total_time=$(FUZZ_SECONDS) -timeout=10 $(BUILD)/fuzz/new-$$name tests/fuzz/corpus/$$name || exit 1; done

check-fuzz: $(addprefix $(BUILD)/fuzz/,$(FUZZ_NAMES))
	@for name in $(FUZZ_NAMES); do if $(BUILD)/fuzz/$$name -runs=0 -timeout=10 tests/fuzz/corpus/$$name \
		>$(BUILD)/fuzz/$$name.log 2>&1; then echo "ok - fuzz corpus $$name"; \
		else echo "not ok - fuzz corpus $$name"; tail -20 $(BUILD)/fuzz/$$name.log; exit 1; fi; done

check-host: all
	@tests/host/run.sh

$(BUILD)/bench/%: $(BUILD)/obj/tests/bench/%.o
	@mkdir -p $(@D)
	$(say) LD $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^

# The budgets, beside their peers: tests/bench/README.md has the method. BENCH='--only start' chooses.
bench:
	@packaging/setup.sh bench
	@$(MAKE) --no-print-directory all $(addprefix $(BUILD)/bench/,client server watch)
	@VGW_AGENT='$(abspath $(BIN))' VGW_BENCH_TOOLS='$(abspath $(BUILD)/bench)' tests/bench/run.sh \
		--output '$(abspath $(BUILD)/bench.json)' $(BENCH)

demo: setup
	@$(MAKE) --no-print-directory all
	@tests/host/demo.sh

format:
	clang-format -i $(C_FILES) $(H_FILES)

lint: $(MODEL_LIB)
	@packaging/lint.sh $(MODEL_LIB) $(C_FILES) $(H_FILES)

install: all
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' SYSCONFDIR='$(SYSCONFDIR)' BIN='$(BIN)' packaging/install.sh

clean:
	rm -rf $(BUILD)
