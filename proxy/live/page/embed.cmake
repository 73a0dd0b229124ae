# Writes a C++ source with the page's files: cmake -DOUTPUT=FILE -DFOLDER=DIR -DUPLOT=DIR -DRUNBOOK=FILE -P embed.cmake
# Every module, style sheet and picture of the folder is served below /page/; index.html is "/".
cmake_minimum_required(VERSION 3.20)
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
# The page of a saved report is one file: its modules, each in a function, stand behind those that they import. It lies in
# parts in the source, because a literal may not be longer than 64 KiB.
set_property(GLOBAL PROPERTY bundled "")
set_property(GLOBAL PROPERTY bundle "")
function(bundle name)
  get_property(done GLOBAL PROPERTY bundled)
  if(name IN_LIST done)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY bundled ${name})
  file(READ ${FOLDER}/${name}.js text)
  string(REGEX MATCHALL "from \"\\./[a-z]+\\.js\"" imports "${text}")
  foreach(import ${imports})
    string(REGEX REPLACE "from \"\\./([a-z]+)\\.js\"" "\\1" import "${import}")
    bundle(${import})
  endforeach()
  string(REGEX MATCHALL "\nexport [a-z ]+ [A-Za-z_]+" exports "${text}")
  list(TRANSFORM exports REPLACE "^.* " "")
  list(JOIN exports ", " exports)
  string(REGEX REPLACE "import ({[^}]*}) from \"\\./([a-z]+)\\.js\";" "const \\1 = in_\\2;" text "${text}")
  string(REGEX REPLACE "\nexport " "\n" text "${text}")
  set_property(GLOBAL APPEND_STRING PROPERTY bundle "    R\"weir_file(const in_${name} = (() => {\n${text}\nreturn { ${exports} };\n})();\n)weir_file\",\n")
endfunction()
bundle(main)
get_property(modules GLOBAL PROPERTY bundle)
foreach(pair uplot_js=${UPLOT}/uPlot.iife.min.js uplot_css=${UPLOT}/uPlot.min.css uplot_licence=${UPLOT}/LICENSE
        page_css=${FOLDER}/page.css theme_js=${FOLDER}/theme.js runbook=${RUNBOOK} report=${FOLDER}/index.html)
  string(REGEX MATCH "^([^=]*)=(.*)$" matched "${pair}")
  file(READ ${CMAKE_MATCH_2} ${CMAKE_MATCH_1})
endforeach()
string(REGEX REPLACE "<(link|script)[^>]*/page/[^\n]*\n" "" report "${report}")
string(REPLACE "</head>" "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">
<!-- This page holds uPlot.
${uplot_licence} -->
<style>\n${uplot_css}\n${page_css}\n</style>
<script>\n${theme_js}\n</script>
</head>" report "${report}")
string(REPLACE "</body>\n</html>\n" "" report "${report}")
string(APPEND report "<script type=\"text/plain\" id=\"runbook\">\n${runbook}</script>
<script type=\"application/json\" id=\"saved\">")

file(WRITE ${OUTPUT} "#include \"proxy/live/page/files.hpp\"

namespace weir::proxy::live::page {
namespace {
constexpr File all[] = {
${rows}};
}
std::span<const File> files() { return all; }
constexpr std::string_view behind[] = {
    R\"weir_file(</script>\n<script>\n${uplot_js}\n</script>\n<script>\n\"use strict\";\n)weir_file\",
${modules}    \"</script>\\n</body>\\n</html>\\n\"};
std::string_view before_saved() { return R\"weir_file(${report})weir_file\"; }
std::span<const std::string_view> behind_saved() { return behind; }
}
")
