#include "proxy/top/state.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace weir::proxy::top {
namespace {

constexpr std::array<std::pair<std::string_view, Key>, 14> sequences{{
    {"\x1b[A", Key::up},
    {"\x1bOA", Key::up},
    {"\x1b[B", Key::down},
    {"\x1bOB", Key::down},
    {"\x1b[5~", Key::page_up},
    {"\x1b[6~", Key::page_down},
    {"\x1b[H", Key::home},
    {"\x1bOH", Key::home},
    {"\x1b[1~", Key::home},
    {"\x1b[7~", Key::home},
    {"\x1b[F", Key::end},
    {"\x1bOF", Key::end},
    {"\x1b[4~", Key::end},
    {"\x1b[8~", Key::end},
}};

/// The names of rows have this of replicas that are no longer in the settings (docs/reference/api.md), and no other
/// names have.
constexpr std::string_view leaving = " (leaving";

constexpr char suspend_letter = 26, redraw_letter = 12;

bool has_rows(Section section) {
  return section == Section::all || section == Section::pools || section == Section::replicas ||
         section == Section::keys;
}

bool has_replicas(Section section) { return section == Section::all || section == Section::replicas; }

void move(State& state, const Shown& shown, long by) {
  if (!has_rows(state.section)) {
    state.first = static_cast<std::size_t>(
        std::clamp(static_cast<long>(state.first) + by, 0L, static_cast<long>(shown.last_first)));
    return;
  }
  if (shown.rows.empty()) return;
  const auto at = std::ranges::find(shown.rows, state.chosen);
  const auto last = static_cast<long>(shown.rows.size()) - 1;
  const long from = at != shown.rows.end() ? at - shown.rows.begin() : by < 0 ? last + 1 : -1;
  state.chosen = shown.rows[static_cast<std::size_t>(std::clamp(from + by, 0L, last))];
}

void go_to(State& state, Section section) {
  state.section = state.section == section ? Section::all : section;
  state.chosen.clear();
  state.sorted_by = state.first = 0;
}

void go_back(State& state) {
  if (state.section == Section::row) {
    state.section = state.row_of;
    state.first = 0;
  } else if (state.section != Section::all) {
    go_to(state, Section::all);
  } else if (!state.filter.empty()) {
    state.filter.clear();
  } else {
    state.chosen.clear();
  }
}

void type(State& state, Press press) {
  if (press.key == Key::enter || press.key == Key::down) {
    state.types_filter = false;
  } else if (press.key == Key::escape) {
    state.types_filter = false;
    state.filter.clear();
  } else if (press.key == Key::backspace) {
    if (!state.filter.empty()) state.filter.pop_back();
  } else if (press.key == Key::letter && press.letter >= ' ' && state.filter.size() < 60) {
    state.filter += press.letter;
  }
}

bool shows_a_replica(const State& state) {
  return has_replicas(state.section) || (state.section == Section::row && has_replicas(state.row_of));
}

void ask(State& state, Change change, const Shown& shown) {
  const bool on_screen = state.section == Section::row || std::ranges::count(shown.rows, state.chosen) > 0;
  if (!shows_a_replica(state) || state.chosen.empty() || !on_screen)
    state.message = "Choose a replica first, with the arrow keys.";
  else if (state.chosen.find(leaving) != std::string::npos)
    state.message = "That replica has left the settings, and drains already.";
  else
    state.asks = change;
}

Action answer(State& state, Press press) {
  const auto change = *std::exchange(state.asks, {});
  if (press != Press{Key::letter, 'y'}) return {};
  return {change == Change::drain ? Action::What::drain : Action::What::undrain, state.chosen};
}

Action take_letter(State& state, char letter, const Shown& shown) {
  switch (letter) {
    case 'q': return {Action::What::quit};
    case suspend_letter: return {Action::What::suspend};
    case redraw_letter: return {Action::What::redraw};
    case 'j': move(state, shown, 1); break;
    case 'k': move(state, shown, -1); break;
    case 'p': go_to(state, Section::pools); break;
    case 'r': go_to(state, Section::replicas); break;
    case 'K': go_to(state, Section::keys); break;
    case 'e': go_to(state, Section::events); break;
    case 'w': go_to(state, Section::weir); break;
    case '?': go_to(state, Section::help); break;
    case '/': state.types_filter = true; break;
    case 's':
      if (has_rows(state.section)) state.sorted_by = (state.sorted_by + 1) % (shown.columns + 1);
      break;
    case 'd': ask(state, Change::drain, shown); break;
    case 'u': ask(state, Change::undrain, shown); break;
    default: break;
  }
  return {};
}

}  // namespace

std::vector<Press> presses_of(std::string_view bytes) {
  std::vector<Press> presses;
  while (!bytes.empty()) {
    const auto known = std::ranges::find_if(sequences, [&](const auto& one) { return bytes.starts_with(one.first); });
    if (known != sequences.end()) {
      presses.push_back({known->second});
      bytes.remove_prefix(known->first.size());
      continue;
    }
    const char letter = bytes.front();
    bytes.remove_prefix(1);
    if (letter == '\x1b') {
      presses.push_back({Key::escape});
      if (!bytes.starts_with('[') && !bytes.starts_with('O')) continue;
      // The rest of a sequence that is no key here: it ends with its first letter or "~".
      std::size_t end = 1;
      while (end < bytes.size() && (bytes[end] < '@' || bytes[end] > '~')) ++end;
      if (end < bytes.size()) {
        presses.pop_back();
        bytes.remove_prefix(end + 1);
      }
    } else if (letter == '\r' || letter == '\n') {
      presses.push_back({Key::enter});
    } else if (letter == 127 || letter == 8) {
      presses.push_back({Key::backspace});
    } else {
      presses.push_back({Key::letter, letter});
    }
  }
  return presses;
}

std::size_t whole_presses(std::string_view bytes, bool more) {
  constexpr std::size_t longest = 16;  // No terminal's sequence is longer.
  const auto escape = bytes.rfind('\x1b');
  if (escape == bytes.npos) return bytes.size();
  const auto rest = bytes.substr(escape + 1);
  if (rest.empty()) return more ? escape : bytes.size();
  const bool begins = rest.front() == '[' || rest.front() == 'O';
  const bool ends = std::ranges::any_of(rest.substr(1), [](char letter) { return letter >= '@' && letter <= '~'; });
  return begins && !ends && rest.size() < longest ? escape : bytes.size();
}

Action press(State& state, Press press, const Shown& shown) {
  state.message.clear();
  if (state.asks) return answer(state, press);
  if (state.types_filter) {
    type(state, press);
    return {};
  }
  const auto page = static_cast<long>(shown.page), all = static_cast<long>(shown.rows.size() + shown.last_first) + 1;
  switch (press.key) {
    case Key::up: move(state, shown, -1); break;
    case Key::down: move(state, shown, 1); break;
    case Key::page_up: move(state, shown, -page); break;
    case Key::page_down: move(state, shown, page); break;
    case Key::home: move(state, shown, -all); break;
    case Key::end: move(state, shown, all); break;
    case Key::escape: go_back(state); break;
    case Key::enter:
      if (!has_rows(state.section) || state.chosen.empty()) break;
      state.row_of = state.section;
      state.section = Section::row;
      state.first = 0;
      break;
    case Key::backspace: break;
    case Key::letter: return take_letter(state, press.letter, shown);
  }
  return {};
}

}  // namespace weir::proxy::top
