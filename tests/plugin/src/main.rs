//! `kelson-fault-plugin SOCKET FOLDER`: see the library.

fn main() {
    kelson_fault_plugin::main(std::env::args().skip(1));
}
