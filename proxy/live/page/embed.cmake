# Writes a C++ source with the page's files: cmake -DOUTPUT=FILE -DFOLDER=DIR -DUPLOT=DIR -DRUNBOOK=FILE -P embed.cmake
# Every module, style sheet and picture of the folder is served below /page/; index.html is "/".
file(GLOB names RELATIVE ${FOLDER} ${FOLDER}/*.js ${FOLDER}/*.css ${FOLDER}/*.svg)
set(paths)
foreach(name ${names})
  list(APPEND paths "/page/${name}=${FOLDER}/${name}")
endforeach()
list(APPEND paths "/=${FOLDER}/index.html" "/page/uplot.js=${UPLOT}/uPlot.iife.min.js" "/page/uplot.css=${UPLOT}/uPlot.min.css"
     "/page/uplot-licence.txt=${UPLOT}/LICENSE" "/page/runbook.md=${RUNBOOK}")

set(type_ "text/html; charset=utf-8")  # The path "/".
set(type_.js "text/javascript; charset=utf-8")
set(type_.css "text/css; charset=utf-8")
set(type_.md "text/markdown; charset=utf-8")
set(type_.txt "text/plain; charset=utf-8")
set(type_.svg image/svg+xml)

set(rows)
foreach(pair ${paths})
  string(REGEX MATCH "^([^=]*)=(.*)$" matched "${pair}")
  set(path ${CMAKE_MATCH_1})
  set(file ${CMAKE_MATCH_2})
  file(READ ${file} text)
  file(SHA256 ${file} digest)
  string(SUBSTRING ${digest} 0 20 digest)
  get_filename_component(extension "${path}" LAST_EXT)
  set(type "${type_${extension}}")
  string(APPEND rows "    {\"${path}\", \"${type}\", \"W/\\\"${digest}\\\"\", R\"weir_file(${text})weir_file\"},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"proxy/live/page/files.hpp\"

namespace weir::proxy::live::page {
namespace {
constexpr File all[] = {
${rows}};
}
std::span<const File> files() { return all; }
}
")
