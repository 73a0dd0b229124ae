# Writes a C++ source with the text of files: cmake -DOUTPUT=FILE -DFOLDER=DIR -P embed.cmake
# Each name below is declared in page.hpp.
set(page_html page.html)
set(page_css page.css)
set(report_js report.js)
set(plots_js plots.js)
set(parts_js parts.js)
set(described_js described.js)
set(uplot_js uplot/uPlot.iife.min.js)
set(uplot_css uplot/uPlot.min.css)
set(uplot_licence uplot/LICENSE)

set(source "#include \"metrics/compare/page/page.hpp\"\n\nnamespace weir::metrics::compare::page::assets {\n")
foreach(name page_html page_css report_js plots_js parts_js described_js uplot_js uplot_css uplot_licence)
  file(READ ${FOLDER}/${${name}} text)
  string(APPEND source "const std::string_view ${name} = R\"weir_asset(${text})weir_asset\";\n")
endforeach()
string(APPEND source "}\n")
file(WRITE ${OUTPUT} "${source}")
