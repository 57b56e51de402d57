#!/bin/sh
# For CMAKE_CXX_COMPILER_LAUNCHER: compiles the C++ of ggml, and nothing of the library of models around it, of which
# the bench calls nothing and which takes four minutes: its objects are empty.
case " $* " in
*/llama.cpp/src/* | */llama.cpp/common/* | */llama.cpp/vendor/* | */llama.cpp/tools/*)
    compiler=$1
    while [ $# -gt 0 ] && [ "$1" != -o ]; do shift; done
    exec "$compiler" -x c++ -c /dev/null -o "$2"
    ;;
esac
exec "$@"
