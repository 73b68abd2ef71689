//! The `cachalot` command.

fn main() -> std::process::ExitCode {
    cachalot_cli::main()
}
