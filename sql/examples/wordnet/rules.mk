# rules.mk -- the demo; the Makefile includes it.

demo: ## install dependencies, build, train on WordNet through SQL
	tests/install-deps.sh build demo
	$(MAKE) $(P)/emb.so
	sql/examples/wordnet/demo.sh

.PHONY: demo
