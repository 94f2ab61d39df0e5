"""The harness of the black-box tests: programs, origins, clients and a wire codec, without code of the product."""
