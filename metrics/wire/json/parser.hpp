// Parses JSON that comes in pieces, cut anywhere, and tells a reader what it finds (RFC 8259, strictly; about half a
// surrogate pair the reader decides). The pieces of a string come as they lie in the reads, escapes undone; everything
// else comes whole. State is bounded: no text is kept but a key's first bytes and a number's.
//
// boost::json's parser, the tests' second opinion, goes byte by byte from a string's first escape to its end, and each
// chat of several lines has one: with it, a third of the user time of a request went there (docs/benchmarks.md). Cut
// within an escape, it also overruns its buffer (boostorg/json, issue 876).
#pragma once

#include <boost/container/small_vector.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <experimental/simd>
#include <string_view>

#include "metrics/utf8.hpp"
#include "metrics/wire/json/escape.hpp"
#include "metrics/wire/json/number.hpp"
#include "metrics/wire/json/sax.hpp"
#include "metrics/wire/json/text.hpp"

namespace weir::metrics::wire {

/// The first byte from `at` that a JSON string does not hold as it is: a quote, a backslash or a control byte.
inline const char* end_of_plain_text(const char* at, const char* end) {
  namespace simd = std::experimental;
  using Bytes = simd::native_simd<unsigned char>;
  static constexpr unsigned char quote = '"', backslash = '\\', blank = ' ';
  const auto is_end = [](auto c) { return c == quote || c == backslash || c < blank; };
  for (; end - at >= static_cast<std::ptrdiff_t>(Bytes::size()); at += Bytes::size()) {
    const Bytes bytes(reinterpret_cast<const unsigned char*>(at), simd::element_aligned);
    const auto ends = is_end(bytes);
    if (simd::any_of(ends)) return at + simd::find_first_set(ends);
  }
  return std::find_if(at, end, [&](char c) { return is_end(static_cast<unsigned char>(c)); });
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
    while (at != end && state_ != State::broken) {
      const char* const next = step(at, end);
      if constexpr (Reader::takes_raw) reader_.raw({at, next});
      at = next;
    }
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
    text,
    escape,
    number,
    literal,
    done,
    broken
  };
  struct Container {
    bool array;
    std::size_t size;
  };
  struct Gathered {
    std::array<char, 1024> bytes;  // Not initialised.
    std::size_t size = 0;
  };
  struct Literal {
    std::string_view text;
    void (*tell)(Reader&);
  };

  const char* step(const char* at, const char* end) {
    switch (state_) {
      case State::text:
      case State::escape:
        return read_text(at, end);
      case State::number:
        return read_number(at, end);
      case State::literal:
        read_literal(*at);
        return at + 1;
      default:
        if (*at != ' ' && *at != '\n' && *at != '\r' && *at != '\t') read_structure(*at);
        return at + 1;
    }
  }

  void read_structure(char c) {
    switch (state_) {
      case State::first_element:
        if (c == ']') return end_container();
        [[fallthrough]];
      case State::value:
        return begin_value(c);
      case State::first_member:
        if (c == '}') return end_container();
        [[fallthrough]];
      case State::member:
        return c == '"' ? begin_text(true) : fail();
      case State::colon:
        return c == ':' ? go_on(State::value) : fail();
      case State::behind_value: {
        const bool array = open_.back().array;
        if (c == ',') return go_on(array ? State::value : State::member);
        return c == (array ? ']' : '}') ? end_container() : fail();
      }
      default:
        return fail();
    }
  }

  void begin_value(char c) {
    static constexpr Literal is_true{"true", [](Reader& reader) { reader.boolean(true); }};
    static constexpr Literal is_false{"false", [](Reader& reader) { reader.boolean(false); }};
    static constexpr Literal is_null{"null", [](Reader& reader) { reader.null(); }};
    switch (c) {
      case '"':
        return begin_text(false);
      case '{':
        return begin_container(false);
      case '[':
        return begin_container(true);
      case 't':
        return begin_literal(is_true);
      case 'f':
        return begin_literal(is_false);
      case 'n':
        return begin_literal(is_null);
      default:
        number_ = {};
        return number_.add(c) ? go_on(State::number) : fail();
    }
  }
  void end_value() {
    if (open_.empty()) return go_on(State::done);
    ++open_.back().size;
    state_ = State::behind_value;
  }

  void begin_container(bool array) {
    if (open_.size() == deepest) return fail();
    open_.push_back({array, 0});
    array ? reader_.array_begin() : reader_.object_begin();
    state_ = array ? State::first_element : State::first_member;
  }
  void end_container() {
    const Container ended = open_.back();
    open_.pop_back();
    ended.array ? reader_.array_end(ended.size) : reader_.object_end(ended.size);
    end_value();
  }

  void begin_text(bool key) {
    in_key_ = key;
    key_size_ = 0;
    state_ = State::text;
  }
  /// Text without an escape is told as it lies. Other text is gathered first: a reader that is told of each line and
  /// each quote apart takes several times as long.
  const char* read_text(const char* at, const char* end) {
    Gathered gathered;
    while (at != end) {
      if (state_ == State::escape) {
        at = read_escape(at, end, gathered);
        continue;
      }
      if (units_.open() && *at != '\\' && !end_units(gathered)) return end;
      const char* const plain = end_of_plain_text(at, end);
      const bool last = plain != end && *plain == '"';
      if (gathered.size == 0 && (last || plain == end)) {
        tell_text({at, plain}, last);
        return last ? plain + 1 : end;
      }
      gather(gathered, {at, plain});
      if (last) {
        tell_gathered(gathered, true);
        return plain + 1;
      }
      if (plain == end) break;
      if (*plain != '\\') {
        fail();
        return end;
      }
      at = plain + 1;
      const char undone = at == end ? '\0' : undone_letter(*at);
      if (undone == 0) {
        begin_escape();
      } else {
        if (units_.open() && !end_units(gathered)) return end;
        gather(gathered, {&undone, 1});
        ++at;
      }
    }
    if (gathered.size > 0) tell_gathered(gathered, false);
    return end;
  }
  void begin_escape() {
    escape_ = {};
    state_ = State::escape;
  }
  const char* read_escape(const char* at, const char* end, Gathered& gathered) {
    Escape::Step step = Escape::Step::more;
    while (at != end && step == Escape::Step::more) step = escape_.feed(*at++);
    if (step == Escape::Step::broken) {
      fail();
      return end;
    }
    if (step != Escape::Step::ended) return at;
    const bool paired = units_.add(escape_.unit(), [&](char32_t point) { gather_point(gathered, point); });
    if (!paired && !Reader::takes_half_pairs) {
      fail();
      return end;
    }
    state_ = State::text;
    return at;
  }
  /// No escape goes on with half a pair that is open. Returns false if that breaks the document.
  bool end_units(Gathered& gathered) {
    const bool paired = units_.end([&](char32_t point) { gather_point(gathered, point); });
    if (!paired && !Reader::takes_half_pairs) fail();
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
    if (!in_key_) {
      reader_.string(piece, last);
      if (last) end_value();
      return;
    }
    reader_.key_text(piece);
    if (key_size_ < key_.size())
      std::copy_n(piece.data(), std::min(piece.size(), key_.size() - key_size_), key_.data() + key_size_);
    key_size_ += piece.size();
    if (!last) return;
    reader_.key(key_size_ <= key_.size() ? std::string_view(key_.data(), key_size_) : std::string_view());
    state_ = State::colon;
  }

  const char* read_number(const char* at, const char* end) {
    while (at != end && number_.add(*at)) ++at;
    if (at == end) return end;
    if (!number_.complete()) {
      fail();
      return end;
    }
    reader_.number(number_.value(), number_.bytes());
    end_value();
    return at;
  }

  void begin_literal(const Literal& literal) {
    literal_ = &literal;
    literal_read_ = 1;
    state_ = State::literal;
  }
  void read_literal(char c) {
    if (c != literal_->text[literal_read_]) return fail();
    if (++literal_read_ < literal_->text.size()) return;
    literal_->tell(reader_);
    end_value();
  }

  void go_on(State state) { state_ = state; }
  void fail() { state_ = State::broken; }

  Reader reader_;
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

}  // namespace weir::metrics::wire
