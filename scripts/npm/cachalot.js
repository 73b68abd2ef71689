#!/usr/bin/env node
// Runs the program of the package for this platform, and ends as it does: with its code, or by its signal.
"use strict";
const { spawn } = require("node:child_process");

const { name, version } = require("./package.json");
const platform = `${name}-${process.platform}-${process.arch}`;
const file = process.platform === "win32" ? "cachalot.exe" : "cachalot";
// Both of Linux are installed by a package manager that does not know `libc`. Of these, one cannot be started.
const programs = [platform, `${platform}-musl`].flatMap((found) => {
  try {
    return [require.resolve(`${found}/bin/${file}`)];
  } catch {
    return [];
  }
});

let child;

function fail(message) {
  console.error(`cachalot: ${message}`);
  process.exit(1);
}

function run([program, ...others]) {
  if (program === undefined) {
    fail(`no package for ${process.platform} ${process.arch} is installed: run \`npm install ${name}@${version}\` ` +
      "without `--omit=optional`; on another platform, build it with `cargo install`");
  }
  child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
  child.on("error", (error) => {
    if (error.code === "ENOENT" && others.length > 0) return run(others);
    fail(`${program} cannot be run: ${error.message}`);
  });
  child.on("exit", (code, signal) => {
    if (signal === null) process.exit(code);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

// Before the program starts: without a handler, a signal would end this process and leave the program.
for (const signal of ["SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
// The keys of a terminal send these to the program, too.
const has_terminal = process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY;
for (const signal of ["SIGINT", "SIGQUIT"]) {
  process.on(signal, () => has_terminal || child.kill(signal));
}
run(programs);
