"""Hinton, Sabour and Frosst, "Matrix capsules with EM routing" (ICLR 2018), and its question of novel viewpoints."""
