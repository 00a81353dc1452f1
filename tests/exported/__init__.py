"""Small models as exporters write them, with inputs and the outputs that their own framework computes."""
