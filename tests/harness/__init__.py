"""What the black-box tests stand on: programs, origins, clients and a wire codec; none of it is the product's."""
