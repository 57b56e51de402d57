# Groups the items of a header of cbindgen by task, as sections.txt lists them: cbindgen writes all enumerations, then all
# structs, then all functions. Within a section types come first. Writes an enumeration in one line and not in twelve.
#
#     awk -f sections.awk sections.txt src/*.rs cbindgen.h

function fail(text) { print "sections: " text > "/dev/stderr"; failed = 1; exit 1 }

# The module that defines an item, from `pub .. fn NAME`, `pub struct NAME` and the like.
FILENAME ~ /\.rs$/ {
    if (match($0, /^ *pub (unsafe )?(extern "C" )?(fn|struct|enum|const) (rope|ROPE)_[A-Za-z0-9_]+/)) {
        item = substr($0, RSTART, RLENGTH); sub(/.* /, "", item)
        module = FILENAME; sub(/.*\//, "", module); sub(/\.rs$/, "", module)
        module_of[item] = module
    }
    next
}

FILENAME ~ /sections\.txt$/ {
    if ($0 == "" || /^#/) next
    title = $0; sub(/:.*/, "", title)
    if (sections == 0 || titles[sections] != title) titles[++sections] = title
    entries = split(substr($0, length(title) + 2), entry, " ")
    for (i = 1; i <= entries; i++) {
        if (entry[i] in section_of) fail(entry[i] " is listed twice")
        section_of[entry[i]] = sections
        rank[entry[i]] = ++listed
    }
    next
}

# The rest is the header. A block ends with an empty line; the first blocks, up to `extern "C"`'s, are for all.
function flush_block(    name, key, kind) {
    if (block == "") return
    if (block ~ /#endif +\/\/ __cplusplus\n$/ || block ~ /^#endif  \/\* ROPE_H/) {
        block = ""; return
    }
    # What all sections use ends with the type of statuses.
    if (!past_preamble) {
        preamble = preamble block "\n"
        if (block ~ /ROPE_ENUM_TYPE\(rope_status\)/) past_preamble = 1
        block = ""; return
    }
    kind = "function"
    if (match(block, /(^|\n)enum rope_[a-z0-9_]+/)) kind = "type"
    else if (match(block, /(^|\n)typedef struct rope_[a-z0-9_]+/)) kind = "type"
    else if (match(block, /(^|\n)#define ROPE_[A-Z0-9_]+/)) kind = "type"
    else if (!match(block, /(^|\n)[a-z][A-Za-z0-9_ *]*[ *]rope_[a-z0-9_]+\(/)) fail("no item in: " block)
    name = substr(block, RSTART, RLENGTH)
    sub(/\($/, "", name); sub(/.*[^A-Za-z0-9_]/, "", name)
    if (kind == "function" && name !~ /_free$/ && name != "rope_error_detail")
        sub(/(^|\n)rope_status rope_/, "\nROPE_NODISCARD&", block)
    key = (name in section_of) ? name : module_of[name]
    if (!(key in section_of)) fail(name " of module " key " is in no section")
    used[key] = 1
    blocks++
    text[blocks] = (kind == "function") ? joined(shortened(block)) : beside(block)
    block_section[blocks] = section_of[key]
    block_rank[blocks] = (kind == "type") ? 0 : rank[key]
    block = ""
}

# The list of sections, in lines of at most 120 columns.
/@SECTIONS@/ {
    list = $0
    all = titles[1]
    for (i = 2; i <= sections; i++) all = all "; " titles[i]
    sub(/@SECTIONS@/, all, list)
    while (length(list) > 120) {
        for (cut = 120; substr(list, cut + 1, 1) != " "; ) cut--
        block = block substr(list, 1, cut) "\n"
        list = "// " substr(list, cut + 2)
    }
    block = block list "\n"
    next
}

# `: int32_t` and the type's name, by the two macros of the preamble.
/^#if defined\(__cplusplus\) \|\| __STDC_VERSION__ >= 202311L$/ && enumeration { getline; getline; next }
/^enum rope_[a-z0-9_]+$/ { enumeration = 1; enum_name = $2; block = block $0 " ROPE_INT32_ENUM {\n"; next }
enumeration && /^ \{$/ { next }
enumeration && /^#(if defined\(ROPE_MODELS\)|endif)$/ { next }
enumeration && /^};$/ {
    block = block "};\nROPE_ENUM_TYPE(" enum_name ");\n"
    if (enum_name == "rope_status") sub(/ROPE_ENUM_TYPE\(rope_status\);\n/, "", block)
    enumeration = 0; skipping = 1; next
}
skipping { if (/^#endif \/\/ __cplusplus$/) skipping = 0; next }
/^$/ && !enumeration { flush_block(); next }
{ block = block $0 "\n" }

END {
    if (failed) exit 1
    flush_block()
    for (key in section_of) if (!(key in used)) fail(key " names no item of the header")
    printf "%s", preamble
    for (section = 1; section <= sections; section++) {
        print "// ---- " titles[section] " ----\n"
        for (current = 0; current <= listed; current++)
            for (i = 1; i <= blocks; i++)
                if (block_section[i] == section && block_rank[i] == current) emit(text[i])
    }
    print "#ifdef __cplusplus\n} // extern \"C\"\n#endif\n\n#endif // ROPE_H"
}

# The comment of a function without its headings. What the top of the header says once is left out: that a call may be
# made from any thread at any time, and that pointers are NULL or valid.
function shortened(block,    line, lines, i, out, part, paragraph) {
    lines = split(block, line, "\n")
    for (i = 1; i <= lines; i++) {
        if (line[i] == "// # Threads") { out = closed(out, part, paragraph); part = "Threads"; paragraph = ""; i++ }
        else if (line[i] == "// # Safety") { out = closed(out, part, paragraph); part = "Safety"; paragraph = ""; i++ }
        else if (part != "" && line[i] ~ /^\/\/ /) paragraph = paragraph (paragraph == "" ? "" : " ") substr(line[i], 4)
        else if (part != "" && line[i] == "//") { out = closed(out, part, paragraph); paragraph = "" }
        else {
            if (part != "") { out = closed(out, part, paragraph); part = paragraph = "" }
            out = out line[i] (i < lines ? "\n" : "")
        }
    }
    return out
}

# The paragraph of a heading, with an empty line before it.
function closed(out, part, paragraph) {
    if (part == "Threads") {
        if (paragraph == "May be called from any thread at any time.") paragraph = ""
        sub(/^May be called from any thread[.;,] /, "", paragraph)
        if (paragraph != "") paragraph = "Threads: " paragraph
    }
    if (part == "Safety") {
        sub(/^As rope_[a-z_]+(\.|, and )/, "", paragraph)
        sub(/^Pointers(, also those in structs,)? are NULL or valid for the length of the call\.( |$)/, "", paragraph)
        sub(/^`[a-z]+` is NULL or (of this library|points to a rope_[a-z]+)\.( |$)/, "", paragraph)
    }
    sub(/(\n\/\/)+\n$/, "\n", out)
    return (paragraph == "") ? out : out (out == "" ? "" : "//\n") wrapped(paragraph)
}

# A prototype in as few lines of at most 120 columns as it takes.
function joined(block,    at, prototype, rest, indent, out, cut) {
    if (!match(block, /(^|\n)[a-z][^\n]*[ *]rope_[a-z0-9_]+\([^;]*;/)) return block
    at = RSTART + (substr(block, RSTART, 1) == "\n")
    prototype = substr(block, at, RSTART + RLENGTH - at)
    rest = substr(block, RSTART + RLENGTH)
    gsub(/\n */, " ", prototype)
    indent = prototype; sub(/\(.*/, "(", indent); gsub(/./, " ", indent)
    while (length(prototype) > 120) {
        for (cut = 120; substr(prototype, cut + 1, 1) != " " || substr(prototype, cut, 1) != ","; ) cut--
        out = out substr(prototype, 1, cut) "\n"
        prototype = indent substr(prototype, cut + 2)
    }
    return substr(block, 1, at - 1) out prototype rest
}

# Comments of one line beside the member or the value that they are about, where both fit 120 columns.
function beside(block,    line, lines, i, out, comment) {
    lines = split(block, line, "\n")
    for (i = 1; i <= lines; i++) {
        comment = line[i]; sub(/^ +/, "", comment)
        if (line[i] ~ /^  \/\/ / && line[i - 1] !~ /^  \/\// && line[i + 1] ~ /^  [A-Za-z].*[,;]$/ \
            && length(line[i + 1]) + length(comment) + 2 <= 120) {
            out = out line[i + 1] "  " comment "\n"; i++
        } else out = out line[i] (i < lines ? "\n" : "")
    }
    return out
}

# A paragraph as comments of at most 120 columns.
function wrapped(paragraph,    out, cut) {
    while (length(paragraph) > 117) {
        for (cut = 117; substr(paragraph, cut + 1, 1) != " "; ) cut--
        out = out "// " substr(paragraph, 1, cut) "\n"
        paragraph = substr(paragraph, cut + 2)
    }
    return out "// " paragraph "\n"
}

# A struct that a later section defines is declared first, as a prototype names it.
function emit(block,    rest, name, here) {
    rest = block
    gsub(/(^|\n) *\/\/[^\n]*/, "\n", rest)
    if (match(rest, /typedef struct rope_[a-z0-9_]+/)) {
        name = substr(rest, RSTART + 15, RLENGTH - 15); known[name] = 1
    }
    while (match(rest, /struct rope_[a-z0-9_]+/)) {
        name = substr(rest, RSTART + 7, RLENGTH - 7)
        if (!(name in known)) { known[name] = 1; here = here "struct " name ";\n" }
        rest = substr(rest, RSTART + RLENGTH)
    }
    if (here != "") print here
    print block
}
