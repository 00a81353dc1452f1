"""Images that are sampled: which elements Resize and RoiAlign read, and how much each of them counts."""
