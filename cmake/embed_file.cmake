# Writes a C++ source with the bytes of a file in it:
#   cmake -DINPUT=page.css -DOUTPUT=page_css.cpp -DNAME=kPageCss -DNAMESPACE=nibble::serve -P embed_file.cmake
file(READ "${INPUT}" bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
file(WRITE "${OUTPUT}" "#include <string_view>
namespace ${NAMESPACE} {
namespace {
constexpr char kBytes[] = {${bytes}};
}
extern const std::string_view ${NAME};
const std::string_view ${NAME}(kBytes, sizeof(kBytes));
}
")
