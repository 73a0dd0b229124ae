# Writes a C++ source with the report's script: cmake -DOUTPUT=FILE -DFOLDER=DIR -P embed.cmake
file(READ ${FOLDER}/page.js text)
file(WRITE ${OUTPUT} "#include \"proxy/control/incident/assets.hpp\"

namespace weir::proxy::control::incident::assets {
const std::string_view page_js = R\"weir_asset(${text})weir_asset\";
}
")
