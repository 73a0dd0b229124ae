// Writes the JSON that weir makes itself.
#pragma once

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <string_view>

namespace weir::metrics::wire {

inline boost::json::string json_text(std::string_view text) { return boost::json::string(text.data(), text.size()); }

}  // namespace weir::metrics::wire
