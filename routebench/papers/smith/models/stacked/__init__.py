"""The stacked capsule autoencoder (Kosiorek et al.): images from parts, and parts from objects."""
