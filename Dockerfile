# UNTESTED: this image has not been built yet.
#
#     docker build -t cachalot .
#     docker run --rm -it -e ANTHROPIC_API_KEY -v "$PWD:/work" -v cachalot:/data cachalot chat
FROM rust:1.95-bookworm AS build
WORKDIR /source
COPY . .
RUN cargo build --release --locked --package cachalot && mkdir /data

# Without a shell: the toolset `shell` and the action `shell.run` need an image with the programs that they run.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /source/target/release/cachalot /usr/local/bin/cachalot
COPY --from=build --chown=nonroot:nonroot /data /data
ENV XDG_DATA_HOME=/data
VOLUME /data
WORKDIR /work
ENTRYPOINT ["/usr/local/bin/cachalot"]
