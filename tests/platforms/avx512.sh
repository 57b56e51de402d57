#!/usr/bin/env bash
# AVX-512 on a CPU that has none: a program without an operating system (tests/avx512) in an emulator, Bochs. It is
# compared with AVX2 there, because Bochs 2.7 rounds some f16 otherwise than a CPU does, with both.
source "$(dirname "$0")/common.sh"

if [[ $(tests/backends_here.sh) == *avx512* ]]; then cannot "this CPU has AVX-512, on which the tests run"; fi
[[ $(uname -m) == x86_64 ]] || cannot "the build for it needs an x86-64"
packages bochs bochs-term bochsbios vgabios isolinux syslinux-common xorriso binutils bsdutils

step build
cd tests/avx512
target=x86_64-unknown-linux-gnu
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-C relocation-model=static -C link-arg=-nostartfiles
    -C link-arg=-nostdlib -C link-arg=-static -C link-arg=-Tmemory.ld"
tests cargo build --locked --release --target $target

# The boot loader copies it whole, by the header at its start.
disk=$temporary/disk
mkdir -p "$disk"
objcopy -O binary "$CARGO_TARGET_DIR/$target/release/rope-avx512" "$disk/program"
modules=/usr/lib/syslinux/modules/bios
cp /usr/lib/ISOLINUX/isolinux.bin $modules/{ldlinux,libcom32,mboot}.c32 "$disk"
printf 'DEFAULT it\nPROMPT 0\nLABEL it\n KERNEL mboot.c32\n APPEND /program\n' >"$disk/isolinux.cfg"
tests xorriso -as mkisofs -quiet -o "$temporary/disk.iso" -b isolinux.bin -c boot.cat -no-emul-boot -boot-load-size 4 \
    -boot-info-table "$disk"

step "AVX-512 beside AVX2"
said=$temporary/said
rm -f "$said"
cat >"$temporary/machine" <<END
megs: 64
cpu: model=corei7_icelake_u, count=1, ips=100000000
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
boot: cdrom
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=cdrom, path=$temporary/disk.iso, status=inserted
com1: enabled=1, mode=file, dev=$said
plugin_ctrl: speaker=0, voodoo=0, es1370=0, sb16=0, gameport=0
display_library: term
clock: sync=none
log: $temporary/emulator
END
# Debian's is built with its debugger, which waits for a command, and shows its screen on a terminal only.
echo c >"$temporary/continue"
TERM=vt100 timeout -k 10 "$limit" script -qec "bochs -q -f '$temporary/machine' -rc '$temporary/continue'" /dev/null \
    </dev/null >"$temporary/screen" 2>&1 || true
grep -q 'Booting from' "$temporary/emulator" || cannot "Bochs does not boot"
[[ -s $said ]] || fail "the program said nothing"
cat "$said" >>"$log"
grep -q '^test result: ok' "$said" || fail "$(head -n 20 "$said")"
passed
