# Writes a C++ source with the text of the sonnets: cmake -DOUTPUT=FILE -DTEXT=FILE -P embed.cmake
file(READ ${TEXT} text)
file(WRITE ${OUTPUT} "#include <string_view>
namespace weir::lab::tasks {
extern const std::string_view sonnets_text;
const std::string_view sonnets_text = R\"weir_text(${text})weir_text\";
}
")
