"""Parts of tools/train_demo_encoder.py."""
