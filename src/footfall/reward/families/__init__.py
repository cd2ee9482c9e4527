"""One file a family of published PRMs; `footfall list family` reads them."""
