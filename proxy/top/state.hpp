// The state of `weir top` as the keys have made it, as a state machine without I/O. The keys are those of weir's page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::proxy::top {

enum class Key : std::uint8_t { letter, up, down, page_up, page_down, home, end, enter, escape, backspace };

struct Press {
  Key key = Key::letter;
  char letter = 0;
  bool operator==(const Press&) const = default;
};

/// Reads keys from the bytes that a terminal sends. An escape byte that begins no known sequence is the Esc key.
std::vector<Press> presses_of(std::string_view bytes);
/// Returns how many of the bytes are to be read now: the begin of a sequence whose rest has not come waits for it. An
/// escape byte at the end is the Esc key, unless `more` bytes are there to be read.
std::size_t whole_presses(std::string_view bytes, bool more);

/// `row` shows all members of the chosen row.
enum class Section : std::uint8_t { all, pools, replicas, keys, events, weir, row, help };

enum class Change : std::uint8_t { drain, undrain };

struct State {
  Section section = Section::all;
  Section row_of = Section::all;  ///< The section in which the row that is shown was chosen.
  std::string chosen{};           ///< The name of a row; "" is none.
  std::size_t sorted_by = 0;      ///< 0 is the worst first; n is the n-th column.
  std::size_t first = 0;          ///< The first line that is shown of a list without rows to choose.
  std::string filter{};
  bool types_filter = false;
  /// The change that is asked about, for the chosen replica.
  std::optional<Change> asks{};
  std::string message{};  ///< How the last change ended; goes with the next key.
};

struct Action {
  enum class What : std::uint8_t { none, quit, suspend, redraw, drain, undrain };
  What what = What::none;
  std::string replica{};
};

/// The content of the screen, as far as keys depend on it.
struct Shown {
  std::vector<std::string> rows{};  ///< The names of the rows that can be chosen, in order.
  std::size_t columns = 0;          ///< So many of them can be sorted by.
  std::size_t page = 10;            ///< So many rows are a page.
  std::size_t last_first = 0;       ///< The highest State::first with which the list fills the screen.
};

/// Takes one key. A change of weir is only ever an action after its question was answered with y.
Action press(State& state, Press press, const Shown& shown);

}  // namespace weir::proxy::top
