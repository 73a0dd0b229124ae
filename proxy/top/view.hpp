// The screen of `weir top`: a pure function of the document of /api/live, the terminal's size and what keys have done.
#pragma once

#include "proxy/top/head.hpp"
#include "proxy/top/rows.hpp"
#include "proxy/top/screen.hpp"
#include "proxy/top/state.hpp"

namespace weir::proxy::top {

struct View {
  Screen screen;
  Shown shown;  ///< For the next key.
};

/// `document` is that of GET /api/live; nullptr before the first. Costs O(rows × log(rows)).
View view(const Json* document, Size size, const State& state, const Standing& standing);

}  // namespace weir::proxy::top
