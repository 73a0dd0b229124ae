// The script of this folder, as the build has put it into the program.
#pragma once

#include <string_view>

namespace weir::proxy::control::incident::assets {

extern const std::string_view page_js;

}  // namespace weir::proxy::control::incident::assets
