#!/usr/bin/env bash
# ARM's scalable vectors under qemu-user, at three lengths, with CI_ALL at four: the suites of what `sve` computes
# itself, the fuzz bodies at the shortest and the longest, and the bench, which verifies every value. With 128 bits a
# plan prefers NEON.
source "$(dirname "$0")/common.sh"

aarch64_toolchain
debian_toolchain
# As aarch64.sh builds it.
optimized rope-tests rope-harness
# The first quarter of the random choices that this machine makes, or a sixteenth between these lengths. At one length
# all backends are tested.
export ROPE_FEWER=4
expect sve,neon,portable,scalar
rotations=(backends:: agree:: special_values:: golden:: guard:: split:: rows_per_head:: shift:: stages::)

for vectors in 1 2 ${CI_ALL:+4} 8; do
    step "vectors of $((128 * vectors)) bits"
    bodies=() ROPE_FEWER=16
    if [[ $vectors == 1 || $vectors == 8 ]]; then bodies=(corpus::) ROPE_FEWER=4; fi
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=$(aarch64_on max,sve-max-vq=$vectors)
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER
    if [[ $vectors != 1 ]]; then export ROPE_ONLY=sve; fi
    suite $aarch64 --features rope-tests/every -- "${rotations[@]}" "${bodies[@]}"
    ran
    best=$([[ $vectors == 1 ]] && echo neon || echo sve)
    grep -q "^backends that run: .* (best: $best;" <(tail -n +"$((part_of_log + 1))" "$log") || fail "$best is not preferred"
    expect "$ROPE_EXPECT"
done

step "the bench, which verifies"
tests cargo build --config profile.dev.package.rope-bench.opt-level=1 "${suite_options[@]}" -p rope-bench \
    --target $aarch64
read -ra emulator <<<"$(aarch64_on max,sve-max-vq=2)"
tests "${emulator[@]}" "$CARGO_TARGET_DIR/$aarch64/debug/rope-bench" --passes 1 --formulation fused --workload W3,W5 \
    --json "$temporary/sve.json" --emulated-by "$(qemu-aarch64 --version | sed -n 1p)"
passed "$(grep -c '"formulation":' "$temporary/sve.json") measurements of the bench verified"
