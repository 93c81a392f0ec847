"""The programs behind every figure that we print: `./dev bench` lists them."""
