nf quality --gradients mixture:1 --topology ring,hierarchical
