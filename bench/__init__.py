"""The programs that measure every published figure: `./dev bench` lists them."""
