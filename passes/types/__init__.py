"""Element types of values: those that a runtime lacks are carried in wider ones, with roundings written out."""
