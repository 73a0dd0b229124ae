// The first lines of the screen: facts of weir itself, and what of it must not be overlooked. Pure.
#pragma once

#include <string>
#include <vector>

#include "proxy/top/rows.hpp"
#include "proxy/top/writer.hpp"

namespace weir::proxy::top {

/// How weir has answered.
struct Standing {
  std::string trouble{};  ///< Why there is no new document, as a sentence; "" if the last one is new.
  Number old{};           ///< The document came so many seconds ago.
};

/// `document` is nullptr before the first.
std::vector<Line> head_of(const Json* document, const Writer& writer, const Standing& standing);

}  // namespace weir::proxy::top
