"""The commands of `coterie`, each in a module or package of its own."""
