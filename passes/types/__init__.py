"""Element types: which values of a model take another one, which cannot, and the casts between both."""
