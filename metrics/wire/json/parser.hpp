// JSON in pieces: the parser, and the meaning of a value by its place.
//
// Parses JSON that comes in pieces, cut anywhere, and tells a reader what it finds (RFC 8259, strictly; about half a
// surrogate pair the reader decides). The pieces of a string come as they lie in the reads, escapes undone; everything
// else comes whole. State is bounded: no text is kept but a key's first bytes and a number's.
//
// boost::json's parser, the tests' second opinion, goes byte by byte from a string's first escape to its end, and each
// chat of several lines has one: with it, a third of the user time of a request went there (docs/benchmarks.md). Cut
// within an escape, it also overruns its buffer (boostorg/json, issue 876).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <experimental/simd>
#include <optional>
#include <string_view>
#include <vector>

#include "metrics/utf8.hpp"
#include "metrics/wire/json/text.hpp"

namespace weir::metrics::wire {

/// A base for readers: each hides those of the functions below that it needs.
class Sax {
 public:
  /// A reader that sets this has `raw(std::string_view)`, which brings the document as it is written, in pieces. The
  /// bytes of an object or array come after its beginning was told, the last of them right after its end was.
  static constexpr bool takes_raw = false;
  /// Half a surrogate pair, which RFC 8259 lets stand in a string, breaks the document unless a reader sets this. Such
  /// a reader is told U+FFFD instead.
  static constexpr bool takes_half_pairs = false;

  void object_begin() {}
  void object_end(std::size_t /*members*/) {}
  void array_begin() {}
  void array_end(std::size_t /*elements*/) {}
  void key_text(std::string_view) {}  ///< Brings the pieces of a key, before key().
  void key(std::string_view) {}       ///< Brings the key; "" if it is longer than JsonParser's `longest_key`.
  /// Offers text of a string as it is written, before string() brings it. A reader returns how far it has read it
  /// itself, which is not within an escape; string() brings the rest.
  const char* skim(const char* at, const char* /*end*/) { return at; }
  void string(std::string_view, bool /*last*/) {}  ///< Brings the pieces of a string, which may be empty.
  /// Brings the nearest double. NaN stands for a number that no double holds, and for one written in more than
  /// NumberText's `longest` bytes.
  void number(double, std::size_t /*bytes*/) {}
  /// Brings the text of a number before number() brings its value, unless it is at most 15 plain digits: other numbers
  /// may have one value and one length, and be two to an engine. Of a longer text it brings NumberText's `longest`.
  void number_text(std::string_view) {}
  void boolean(bool) {}
  void null() {}
};

/// Returns a JSON number as a count; absent if it is none.
inline std::optional<std::uint64_t> as_count(double number) {
  constexpr double most = 9007199254740992.0;  // 2^53; a larger double is no count.
  if (!(number >= 0 && number <= most)) return std::nullopt;
  const auto count = static_cast<std::uint64_t>(number);
  if (static_cast<double>(count) < number) return std::nullopt;
  return count;
}

/// `Reader` derives from Sax.
template <class Reader>
class JsonParser {
 public:
  static constexpr std::size_t longest_key = 32;
  /// Nested deeper, a document counts as broken: no engine reads one either.
  static constexpr std::size_t deepest = 256;

  void feed(std::string_view piece) {
    if (!utf8_.feed(piece)) state_ = State::broken;
    const char* at = piece.data();
    const char* const end = at + piece.size();
    raw_begin_ = at;
    while (at != end && state_ != State::broken) at = step(at, end);
    if (state_ != State::broken) tell_raw(end);
  }
  /// True if a value has come to its end, and nothing after it. Nothing shows the end of a number that stands alone.
  bool whole() const { return state_ == State::done; }
  bool broken() const { return state_ == State::broken; }
  Reader& reader() { return reader_; }
  const Reader& reader() const { return reader_; }

 private:
  enum class State : std::uint8_t {
    value,          // A value is due.
    first_element,  // A value is due, or the end of the array.
    first_member,   // A key is due, or the end of the object.
    member,         // A key is due.
    colon,
    behind_value,  // A comma is due, or the end of what is open.
    done,
    text,  // From here on the parser is within a token.
    escape,
    number,
    literal,
    broken
  };
  struct Container {
    bool array;
    std::size_t size;
  };
  struct Gathered {
    std::array<char, 1024> bytes;  // Not initialised.
    std::size_t size = 0;
    std::ptrdiff_t room() const { return static_cast<std::ptrdiff_t>(bytes.size() - size); }
  };
  struct Literal {
    std::string_view text;
    void (*tell)(Reader&);
  };

  static bool between_tokens(State state) { return state < State::text; }
  static bool is_blank(char c) {
    return static_cast<unsigned char>(c) <= ' ' && (c == ' ' || c == '\n' || c == '\r' || c == '\t');
  }

  // All that feed() meets with each token is one function: a call for each costs a tenth of the reading.
  [[gnu::always_inline]] const char* step(const char* at, const char* end) {
    const char c = *at;
    if (between_tokens(state_) && is_blank(c)) return at + 1;
    switch (state_) {
      case State::first_element:
        if (c == ']') return end_container(at, end);
        [[fallthrough]];
      case State::value:
        return begin_value(at, end);
      case State::first_member:
        if (c == '}') return end_container(at, end);
        [[fallthrough]];
      case State::member:
        return c == '"' ? begin_key(at + 1, end) : fail(end);
      case State::colon:
        return c == ':' ? go_on(State::value, at + 1) : fail(end);
      case State::behind_value: {
        const bool array = open_.back().array;
        if (c == ',') return go_on(array ? State::value : State::member, at + 1);
        return c == (array ? ']' : '}') ? end_container(at, end) : fail(end);
      }
      case State::text:
      case State::escape:
        return read_text(at, end);
      case State::number:
        return read_number(at, end);
      case State::literal:
        return read_literal(at, end);
      case State::done:
      case State::broken:
        break;
    }
    return fail(end);
  }

  [[gnu::always_inline]] const char* begin_value(const char* at, const char* end) {
    static constexpr Literal is_true{"true", [](Reader& reader) { reader.boolean(true); }};
    static constexpr Literal is_false{"false", [](Reader& reader) { reader.boolean(false); }};
    static constexpr Literal is_null{"null", [](Reader& reader) { reader.null(); }};
    switch (*at) {
      case '"':
        return begin_string(at + 1, end);
      case '{':
        return begin_container(false, at);
      case '[':
        return begin_container(true, at);
      case 't':
        return begin_literal(is_true, at);
      case 'f':
        return begin_literal(is_false, at);
      case 'n':
        return begin_literal(is_null, at);
      default:
        return begin_number(at, end);
    }
  }
  /// Mostly a comma follows at once.
  const char* end_value(const char* at, const char* end) {
    if (open_.empty()) return go_on(State::done, at);
    Container& container = open_.back();
    ++container.size;
    if (at == end || *at != ',') return go_on(State::behind_value, at);
    return go_on(container.array ? State::value : State::member, at + 1);
  }

  /// Tells the document as it is written, up to `to`.
  void tell_raw([[maybe_unused]] const char* to) {
    if constexpr (Reader::takes_raw) {
      if (to != raw_begin_) reader_.raw({raw_begin_, to});
      raw_begin_ = to;
    }
  }
  const char* begin_container(bool array, const char* at) {
    if (open_.size() == deepest) return fail(at);
    tell_raw(at);
    open_.push_back({array, 0});
    array ? reader_.array_begin() : reader_.object_begin();
    return go_on(array ? State::first_element : State::first_member, at + 1);
  }
  [[gnu::always_inline]] const char* end_container(const char* at, const char* end) {
    const Container ended = open_.back();
    open_.pop_back();
    ended.array ? reader_.array_end(ended.size) : reader_.object_end(ended.size);
    tell_raw(at + 1);
    return end_value(at + 1, end);
  }

  /// Most keys and strings lie whole in the piece and have no escape: these two read them at once.
  [[gnu::always_inline]] const char* begin_key(const char* at, const char* end) {
    const char* const plain = end_of_plain_text(at, end);
    if (plain == end || *plain != '"') return begin_text(true, at, plain, end);
    const std::string_view name(at, plain);
    reader_.key_text(name);
    end_key(name);
    at = plain + 1;
    return at != end && *at == ':' ? go_on(State::value, at + 1) : at;
  }
  [[gnu::always_inline]] const char* begin_string(const char* at, const char* end) {
    at = reader_.skim(at, end);
    const char* const plain = end_of_plain_text(at, end);
    if (plain == end || *plain != '"') return begin_text(false, at, plain, end);
    reader_.string({at, plain}, true);
    return end_value(plain + 1, end);
  }
  const char* begin_text(bool key, const char* at, const char* plain, const char* end) {
    in_key_ = key;
    key_size_ = 0;
    state_ = State::text;
    return at == end ? at : read_text(at, plain, end);
  }
  const char* read_text(const char* at, const char* end) {
    if (state_ == State::escape || units_.open()) {
      Gathered gathered;
      return gather_to_end(gathered, at, end);
    }
    if (!in_key_) at = reader_.skim(at, end);
    return read_text(at, end_of_plain_text(at, end), end);
  }
  /// Text without an escape, which here lies before `plain`, is told as it lies. Other text is gathered first: a reader
  /// that is told of each line and each quote apart takes several times as long.
  const char* read_text(const char* at, const char* plain, const char* end) {
    const bool last = plain != end && *plain == '"';
    if (last || plain == end) {
      tell_text({at, plain}, last);
      return last ? end_text(plain + 1, end) : end;
    }
    Gathered gathered;
    gather(gathered, {at, plain});
    return gather_to_end(gathered, plain, end);
  }
  const char* gather_to_end(Gathered& gathered, const char* at, const char* end) {
    while (at != end) {
      if (state_ == State::escape) {
        at = read_escape(at, end, gathered);
        continue;
      }
      if (units_.open() && *at != '\\' && !end_units(gathered)) return end;
      at = gather_text(gathered, at, end);
      if (at == end) break;
      if (*at == '"') {
        tell_gathered(gathered, true);
        return end_text(at + 1, end);
      }
      if (*at != '\\') return fail(end);
      ++at;
      const char undone = at == end ? '\0' : undone_letter(*at);
      if (undone == 0) {
        begin_escape();
      } else {
        if (units_.open() && !end_units(gathered)) return end;
        gather(gathered, undone);
        ++at;
      }
    }
    if (gathered.size > 0) tell_gathered(gathered, false);
    return end;
  }
  /// Gathers plain text and the escapes of one letter in it in one pass, and returns where they end. Bytes beyond the
  /// gathered size may be overwritten. With half a surrogate pair open, `at` is an escape, which stays.
  const char* gather_text(Gathered& gathered, const char* at, const char* end) {
    if (units_.open()) return at;
    while (end - at >= plain_text::block) {
      if (gathered.room() < plain_text::block) tell_gathered(gathered, false);
      char* to = gathered.bytes.data() + gathered.size;
      // Text does not grow, so there is room for all that comes before this.
      const char* const stop = at + std::min(end - at, gathered.room());
      bool more = true;
      while (stop - at >= plain_text::block) {
        const auto bytes = plain_text::load(at);
        bytes.copy_to(reinterpret_cast<unsigned char*>(to), std::experimental::element_aligned);
        const auto ends = plain_text::ends(bytes);
        const int plain = std::experimental::any_of(ends) ? std::experimental::find_first_set(ends) : plain_text::block;
        at += plain;
        to += plain;
        if (plain == plain_text::block) continue;
        const char undone = *at == '\\' && at + 1 != end ? undone_letter(at[1]) : '\0';
        more = undone != 0;
        if (!more) break;
        *to++ = undone;
        at += 2;
      }
      gathered.size = static_cast<std::size_t>(to - gathered.bytes.data());
      if (!more) return at;
    }
    for (; at != end && !plain_text::ends(static_cast<unsigned char>(*at)); ++at) gather(gathered, *at);
    return at;
  }
  void gather(Gathered& gathered, char c) {
    if (gathered.room() == 0) tell_gathered(gathered, false);
    gathered.bytes[gathered.size++] = c;
  }
  void begin_escape() {
    escape_ = {};
    state_ = State::escape;
  }
  const char* read_escape(const char* at, const char* end, Gathered& gathered) {
    Escape::Step step = Escape::Step::more;
    while (at != end && step == Escape::Step::more) step = escape_.feed(*at++);
    if (step == Escape::Step::broken) return fail(end);
    if (step != Escape::Step::ended) return at;
    const bool paired = units_.add(escape_.unit(), [&](char32_t point) { gather_point(gathered, point); });
    if (!paired && !Reader::takes_half_pairs) return fail(end);
    state_ = State::text;
    return at;
  }
  /// No escape goes on with half a pair that is open. Returns false if that breaks the document.
  bool end_units(Gathered& gathered) {
    const bool paired = units_.end([&](char32_t point) { gather_point(gathered, point); });
    if (!paired && !Reader::takes_half_pairs) state_ = State::broken;
    return paired || Reader::takes_half_pairs;
  }
  void gather_point(Gathered& gathered, char32_t point) {
    std::array<char, 4> bytes;
    gather(gathered, {bytes.data(), put_code_point(point, bytes.data())});
  }
  void gather(Gathered& gathered, std::string_view piece) {
    if (piece.size() > gathered.bytes.size() - gathered.size) tell_gathered(gathered, false);
    if (piece.size() > gathered.bytes.size()) return tell_text(piece, false);
    std::memcpy(gathered.bytes.data() + gathered.size, piece.data(), piece.size());
    gathered.size += piece.size();
  }
  void tell_gathered(Gathered& gathered, bool last) {
    tell_text({gathered.bytes.data(), gathered.size}, last);
    gathered.size = 0;
  }
  void tell_text(std::string_view piece, bool last) {
    if (!in_key_) return reader_.string(piece, last);
    reader_.key_text(piece);
    if (key_size_ < key_.size())
      std::copy_n(piece.data(), std::min(piece.size(), key_.size() - key_size_), key_.data() + key_size_);
    key_size_ += piece.size();
  }
  const char* end_text(const char* at, const char* end) {
    if (!in_key_) return end_value(at, end);
    end_key({key_.data(), key_size_});
    return at;
  }
  /// The text of a key that is longer than `longest_key` is not read.
  void end_key(std::string_view name) {
    reader_.key(name.size() <= longest_key ? name : std::string_view());
    state_ = State::colon;
  }

  /// Most numbers are a few digits that lie whole in the piece.
  const char* begin_number(const char* at, const char* end) {
    if (const auto digits = NumberText::plain_digits(at, end)) {
      reader_.number(static_cast<double>(digits->value), digits->bytes);
      return end_value(at + digits->bytes, end);
    }
    number_.clear();
    return number_.add(*at) ? go_on(State::number, at + 1) : fail(end);
  }
  const char* read_number(const char* at, const char* end) {
    while (at != end && number_.add(*at)) ++at;
    if (at == end) return end;
    if (!number_.complete()) return fail(end);
    if (const auto text = number_.text(); !text.empty()) reader_.number_text(text);
    reader_.number(number_.value(), number_.bytes());
    return end_value(at, end);
  }

  const char* begin_literal(const Literal& literal, const char* at) {
    literal_ = &literal;
    literal_read_ = 1;
    return go_on(State::literal, at + 1);
  }
  const char* read_literal(const char* at, const char* end) {
    if (*at != literal_->text[literal_read_]) return fail(end);
    if (++literal_read_ < literal_->text.size()) return at + 1;
    literal_->tell(reader_);
    return end_value(at + 1, end);
  }

  const char* go_on(State state, const char* at) {
    state_ = state;
    return at;
  }
  const char* fail(const char* end) { return go_on(State::broken, end); }

  Reader reader_;
  const char* raw_begin_ = nullptr;  // A reader that takes it has been told the document up to here.
  State state_ = State::value;
  bool in_key_ = false;
  std::uint8_t literal_read_ = 0;
  const Literal* literal_ = nullptr;
  Escape escape_;
  Utf16Units units_;
  NumberText number_;
  std::array<char, longest_key> key_{};
  std::size_t key_size_ = 0;  // The whole key's, which may be longer than what is kept.
  boost::container::small_vector<Container, 8> open_;
  Utf8Check utf8_;
};

// Walks JSON that comes in pieces, and knows at each value where it stands: the keys that lead to it name its place.
//
// One walker serves requests and whole answers. Each has places of its own, and a table of members that leads from one
// place to the next. The state is two bytes a level of nesting.
//
// `Reader` derives from this class, hides the functions of Sax that it needs, and has:
//   const Member* find(Place in, std::string_view key) const   the member of that name; null if it means nothing
//   void begin_member(Place in, const Member&)                  its key has come, and its value follows
//   Place begin_object(Place)                                   an object begins: returns the place of its members
//   Place begin_array(Place)                                    an array begins: returns the place of its elements
//   void end_object(Place, std::size_t size)
//   void end_array(Place of_elements, std::size_t size)
// `Place` has the values `root`, for the whole document, and `ignored`, for all that means nothing.

template <class Reader, class Member>
class Walker : public Sax {
 public:
  using Place = decltype(Member::place);

  void object_begin() { open_.push_back({reader().begin_object(value_place()), false}); }
  void object_end(std::size_t size) {
    const Place place = open_.back().place;
    open_.pop_back();
    reader().end_object(place, size);
  }
  void array_begin() { open_.push_back({reader().begin_array(value_place()), true}); }
  void array_end(std::size_t size) {
    const Place place = open_.back().place;
    open_.pop_back();
    reader().end_array(place, size);
  }
  void key(std::string_view name) {
    const Place place = open_.back().place;
    member_ = reader().find(place, name);
    if (member_ != nullptr) reader().begin_member(place, *member_);
  }

 protected:
  /// Returns the place of the value that comes now: its key gives a member's, its array an element's.
  Place value_place() const {
    if (open_.empty()) return Place::root;
    if (open_.back().array) return open_.back().place;
    return member_ == nullptr ? Place::ignored : member_->place;
  }
  /// Returns the member of the key that was read last, where value_place() is its place.
  const Member& member() const { return *member_; }
  /// Returns the place of the open object, or of the elements of the open array.
  Place open_place() const { return open_.back().place; }
  std::size_t depth() const { return open_.size(); }

 private:
  struct Container {
    Place place;  // An object's own place, by which its members are found; for an array the place of its
                  // elements.
    bool array;
  };

  Reader& reader() { return static_cast<Reader&>(*this); }

  boost::container::small_vector<Container, 16> open_;
  const Member* member_ = nullptr;  // The last key named this member.
};

// A table of (place, key) -> what the member means. A key is looked up only among the few of its place.

/// `Member` has `in`, the place of the object, `key`, and `place`, that of the value. `last` is the last value of the
/// place enum. A look-up costs a hash of the place, the key's length and three of its letters, and mostly one compare.
template <class Member, auto last>
class MemberIndex {
 public:
  using Place = decltype(last);

  /// If two members have one key in one place, the first counts.
  explicit MemberIndex(const std::vector<Member>& members)
      : members_(members), slots_(std::bit_ceil(4 * members.size() + 1)) {
    for (const Member& member : members_) {
      std::size_t at = slot_of(member.in, member.key);
      while (slots_[at] != nullptr) at = next(at);
      slots_[at] = &member;
    }
  }
  MemberIndex(MemberIndex&&) noexcept = default;

  /// Returns null for a key that means nothing there.
  const Member* find(Place in, std::string_view key) const {
    const Member* const* const slots = slots_.data();
    for (std::size_t at = slot_of(in, key); slots[at] != nullptr; at = next(at)) {
      if (slots[at]->in == in && same(slots[at]->key, key)) return slots[at];
    }
    return nullptr;
  }

 private:
  /// Most keys have 4 to 16 bytes: two loads that overlap are a third of a call of memcmp().
  static bool same(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    const auto same_ends = [&]<class Word>(Word first) {
      Word behind = 0, other_first = 0, other_behind = 0;
      std::memcpy(&first, a.data(), sizeof first);
      std::memcpy(&behind, a.data() + a.size() - sizeof behind, sizeof behind);
      std::memcpy(&other_first, b.data(), sizeof first);
      std::memcpy(&other_behind, b.data() + b.size() - sizeof behind, sizeof behind);
      return first == other_first && behind == other_behind;
    };
    if (a.size() >= 8 && a.size() <= 16) return same_ends(std::uint64_t{});
    if (a.size() >= 4 && a.size() < 8) return same_ends(std::uint32_t{});
    return a == b;
  }
  std::size_t slot_of(Place in, std::string_view key) const {
    std::size_t hash = static_cast<std::size_t>(in) * 31 + key.size();
    if (!key.empty()) {
      const auto letter = [letters = key.data()](std::size_t at) {
        return static_cast<std::size_t>(static_cast<unsigned char>(letters[at]));
      };
      hash += letter(0) * 7 + letter(key.size() / 2) * 53 + letter(key.size() - 1) * 17;
    }
    return hash & (slots_.size() - 1);
  }
  std::size_t next(std::size_t at) const { return (at + 1) & (slots_.size() - 1); }

  std::vector<Member> members_;       ///< The slots point into it, which a move does not change.
  std::vector<const Member*> slots_;  ///< Open addressing; null is free, and three in four are.
};

}  // namespace weir::metrics::wire
