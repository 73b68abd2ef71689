//! Keys of the terminal as actions.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::editor::{Direction, Unit};

/// Action of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Sign(char),
    Enter,
    /// Line break in the message.
    NewLine,
    Tab,
    /// Shift-Tab.
    BackTab,
    Escape,
    Up,
    Down,
    Go(Direction, Unit),
    Delete(Direction, Unit),
    InsertDeleted,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D: the end of the input, or deletion of a character.
    End,
    /// Ctrl-L.
    Redraw,
    /// Ctrl-O: shows pasted text.
    Unfold,
    /// Ctrl-R.
    Search,
    /// Ctrl-Z.
    Suspend,
}

impl Key {
    /// Returns the action of a key; `None` if there is none, or if the key was released.
    pub(super) fn from_event(event: KeyEvent) -> Option<Self> {
        use Direction::{Left, Right};
        // Windows also reports releases.
        if event.kind == KeyEventKind::Release {
            return None;
        }
        let control = event.modifiers.contains(KeyModifiers::CONTROL);
        let alt = event.modifiers.contains(KeyModifiers::ALT);
        let shift = event.modifiers.contains(KeyModifiers::SHIFT);
        let unit = if control || alt {
            Unit::Word
        } else {
            Unit::Cluster
        };
        Some(match event.code {
            // AltGr is reported as both.
            KeyCode::Char(character) if control && alt => Self::Sign(character),
            KeyCode::Char(character) if control => {
                return Self::with_control(character.to_ascii_lowercase());
            }
            KeyCode::Char(character) if alt => match character {
                'b' => Self::Go(Left, Unit::Word),
                'f' => Self::Go(Right, Unit::Word),
                'd' => Self::Delete(Right, Unit::Word),
                _ => return None,
            },
            KeyCode::Char(character) => Self::Sign(character),
            KeyCode::Enter if alt || shift => Self::NewLine,
            KeyCode::Enter => Self::Enter,
            KeyCode::Tab if shift => Self::BackTab,
            KeyCode::Tab => Self::Tab,
            KeyCode::BackTab => Self::BackTab,
            KeyCode::Esc => Self::Escape,
            KeyCode::Up => Self::Up,
            KeyCode::Down => Self::Down,
            KeyCode::Left => Self::Go(Left, unit),
            KeyCode::Right => Self::Go(Right, unit),
            KeyCode::Home => Self::Go(Left, Unit::Line),
            KeyCode::End => Self::Go(Right, Unit::Line),
            KeyCode::Backspace => Self::Delete(Left, unit),
            KeyCode::Delete => Self::Delete(Right, unit),
            _ => return None,
        })
    }

    fn with_control(character: char) -> Option<Self> {
        use Direction::{Left, Right};
        Some(match character {
            'a' => Self::Go(Left, Unit::Line),
            'b' => Self::Go(Left, Unit::Cluster),
            'c' => Self::Interrupt,
            'd' => Self::End,
            'e' => Self::Go(Right, Unit::Line),
            'f' => Self::Go(Right, Unit::Cluster),
            'h' => Self::Delete(Left, Unit::Cluster),
            'j' => Self::NewLine,
            'k' => Self::Delete(Right, Unit::Line),
            'l' => Self::Redraw,
            'n' => Self::Down,
            'o' => Self::Unfold,
            'p' => Self::Up,
            'r' => Self::Search,
            'u' => Self::Delete(Left, Unit::Line),
            'w' => Self::Delete(Left, Unit::Word),
            'y' => Self::InsertDeleted,
            'z' => Self::Suspend,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_and_unknown_keys_have_no_action() {
        let key = |code, modifiers| KeyEvent::new(code, modifiers);
        let typed = key(KeyCode::Char('y'), KeyModifiers::NONE);
        assert_eq!(Key::from_event(typed), Some(Key::Sign('y')));
        let mut released = typed;
        released.kind = KeyEventKind::Release;
        assert_eq!(Key::from_event(released), None);
        let ctrl_c = key(KeyCode::Char('C'), KeyModifiers::CONTROL);
        assert_eq!(Key::from_event(ctrl_c), Some(Key::Interrupt));
        let function = key(KeyCode::F(5), KeyModifiers::NONE);
        assert_eq!(Key::from_event(function), None);
        // A character of a third level of the keyboard.
        let alt_graph = key(
            KeyCode::Char('@'),
            KeyModifiers::CONTROL | KeyModifiers::ALT,
        );
        assert_eq!(Key::from_event(alt_graph), Some(Key::Sign('@')));
        let line = key(KeyCode::Enter, KeyModifiers::ALT);
        assert_eq!(Key::from_event(line), Some(Key::NewLine));
    }
}
