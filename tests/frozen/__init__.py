"""Published models frozen per opset, with their inputs and outputs, and the opsets that each reached."""
