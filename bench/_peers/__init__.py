"""The parts of `./dev bench peers`: one workload through Digestif and through what could be used instead."""
