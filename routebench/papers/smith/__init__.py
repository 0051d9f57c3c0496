"""Smith et al., "Capsule networks: a probabilistic perspective", beside the stacked capsule autoencoder and a VAE."""
