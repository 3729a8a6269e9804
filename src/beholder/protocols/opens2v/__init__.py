"""OpenS2V: subject-to-video generation. Yuan et al., OpenS2V-Nexus, arXiv 2505.20292."""
