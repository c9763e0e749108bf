# rules.mk -- rules for replaying change logs through pipelines; included by the
# Makefile.

MODYN_MAIN := parse_main replay report
MODYN_C    := $(wildcard sql/examples/modyn/changelogs/*.c)
MODYN_O    := $(patsubst %.c,$(O)/%.o,$(wildcard sql/lib/*.c sql/lib/neural/*.c) \
                $(filter-out $(MODYN_MAIN:%=sql/examples/modyn/changelogs/%.c),$(MODYN_C)))
MODYN      := $(patsubst %_main,%,$(MODYN_MAIN:%=$(P)/modyn/%))
EXAMPLES   += $(MODYN)

$(P)/modyn/parse: $(O)/sql/examples/modyn/changelogs/parse_main.o
$(foreach name,$(filter-out parse_main,$(MODYN_MAIN)), \
  $(eval $(P)/modyn/$(name): $(O)/sql/examples/modyn/changelogs/$(name).o))
$(MODYN): $(MODYN_O)
	@echo "  LINK   $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ -lsqlite3 -lopenblas -lm -lpthread

modyn: ## install dependencies, build, replay the change logs of Debian (5 minutes)
	tests/install-deps.sh build modyn
	$(MAKE) $(P)/emb.so $(MODYN)
	OUT=$(OUT) sql/examples/modyn/changelogs/run.sh

modyn-page: ## the same, and write the results into sql/examples/modyn/README.md
	tests/install-deps.sh build modyn
	$(MAKE) $(P)/emb.so $(MODYN)
	OUT=$(OUT) sql/examples/modyn/changelogs/run.sh page

.PHONY: modyn modyn-page
