"""What the codec tests share: every message, instances of them, a slow codec, peers' codecs."""
