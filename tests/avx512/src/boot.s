# From the multiboot loader, in 32 bits without pages, to `main` in 64 bits with AVX-512.

.section .boot, "ax"
.code32
.align 4
header:
    .long 0x1BADB002                    # multiboot
    .long 1 << 16                       # the addresses are here, not in an ELF header
    .long -(0x1BADB002 + (1 << 16))     # makes the sum 0
    .long header, 0x100000, load_end, bss_end, start

.globl start
start:
    # The first GiB, at its own addresses, in pages of 2 MiB.
    mov eax, offset second_table + 3    # present, writable
    mov [first_table], eax
    mov eax, offset third_table + 3
    mov [second_table], eax
    mov edi, offset third_table
    mov eax, 0x83                       # present, writable, large
    mov ecx, 512
1:  mov [edi], eax
    add eax, 0x200000
    add edi, 8
    loop 1b
    mov eax, offset first_table
    mov cr3, eax

    mov eax, cr4
    or eax, 1 << 5 | 1 << 9 | 1 << 10 | 1 << 18 # PAE, FXSR, SIMD exceptions, XSAVE
    mov cr4, eax
    mov ecx, 0xC0000080                 # EFER
    rdmsr
    or eax, 1 << 8                      # long mode
    wrmsr
    mov eax, cr0
    and eax, ~(1 << 2)                  # no emulation of floats
    or eax, 1 << 31 | 1 << 1            # paging, a coprocessor
    mov cr0, eax
    lgdt [descriptors_register]
    .byte 0xEA                          # a far jump
    .long start_64
    .word 8

.align 8
descriptors:
    .quad 0
    .quad 0x00AF9A000000FFFF            # code of 64 bits
    .quad 0x00CF92000000FFFF            # data
descriptors_register:
    .word 23
    .long descriptors

.code64
start_64:
    mov eax, 16
    mov ds, eax
    mov es, eax
    mov ss, eax
    xor ecx, ecx
    xor edx, edx
    mov eax, 0xE7                       # x87, SSE, AVX and AVX-512
    xsetbv
    lea rsp, [rip + stack_end]
    call main
    ud2

.section .bss
.align 4096
first_table: .skip 4096
second_table: .skip 4096
third_table: .skip 4096
    .skip 4 << 20
stack_end:
