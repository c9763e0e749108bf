# rules.mk -- rules for the knowledge bank examples; included by the Makefile.

# The programs.
BANK_MAIN  := regularise steps mining agreement retrieve retrieve_steps \
              maker_main report robust
BANK_C     := $(wildcard sql/examples/bank/*.c)
BANK_O     := $(patsubst %.c,$(O)/%.o,$(wildcard sql/lib/*.c sql/lib/neural/*.c) \
                $(filter-out $(BANK_MAIN:%=sql/examples/bank/%.c),$(BANK_C)))
BANK       := $(patsubst %_main,%,$(BANK_MAIN:%=$(P)/bank/%))
EXAMPLES   += $(BANK)

$(P)/bank/maker: $(O)/sql/examples/bank/maker_main.o
$(foreach name,$(filter-out maker_main,$(BANK_MAIN)), \
  $(eval $(P)/bank/$(name): $(O)/sql/examples/bank/$(name).o))
$(BANK): $(BANK_O)
	@echo "  LINK   $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ -lsqlite3 -lopenblas -lm -lpthread

$(O)/sql/examples/bank/%.o: ALL_CFLAGS += -O3

bank: ## install dependencies, build, run the examples of a knowledge bank (5 minutes)
	tests/install-deps.sh build bank
	$(MAKE) $(P)/emb.so $(BANK)
	OUT=$(OUT) sql/examples/bank/run.sh

bank-page: ## the same, and write the results into sql/examples/bank/README.md
	tests/install-deps.sh build bank
	$(MAKE) $(P)/emb.so $(BANK)
	OUT=$(OUT) sql/examples/bank/run.sh page

.PHONY: bank bank-page
