# rules.mk -- rules for the demo; included by the Makefile.

demo: ## install dependencies, build, train on WordNet through SQL
	tests/install-deps.sh build demo
	$(MAKE) $(P)/emb.so
	sql/examples/wordnet/demo.sh

.PHONY: demo
